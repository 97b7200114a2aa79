#include "base/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace kiln {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

// Slicing-by-8: row k holds the contribution of a byte that is followed by k more bytes of its
// word.
using Tables = std::array<std::array<std::uint32_t, 256>, kWord>;

constexpr Tables make_tables() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // Castagnoli, bit-reversed
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kWord; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 255U];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t add_byte(std::uint32_t crc, char byte) {
  return crc >> 8 ^ kTables[0][(crc ^ static_cast<unsigned char>(byte)) & 255U];
}

std::uint64_t word_at(std::string_view bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), kWord);
  return word;
}

std::uint32_t by_tables(std::string_view bytes, std::uint32_t crc) {
  for (; bytes.size() >= kWord; bytes.remove_prefix(kWord)) {
    const std::uint64_t word = word_at(bytes) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < kWord; ++k) crc ^= kTables[kWord - 1 - k][word >> 8 * k & 255U];
  }
  for (const char byte : bytes) crc = add_byte(crc, byte);
  return crc;
}

[[gnu::target("sse4.2")]] std::uint32_t by_instruction(std::string_view bytes, std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; bytes.size() >= kWord; bytes.remove_prefix(kWord))
    wide = __builtin_ia32_crc32di(wide, word_at(bytes));
  crc = static_cast<std::uint32_t>(wide);
  for (const char byte : bytes) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(byte));
  return crc;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) {
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  return ~(kHasInstruction ? by_instruction(bytes, ~crc) : by_tables(bytes, ~crc));
}

std::uint32_t crc32c_by_tables(std::string_view bytes, std::uint32_t crc) {
  return ~by_tables(bytes, ~crc);
}

std::string little_endian(std::uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes += static_cast<char>(value >> 8 * i & 255U);
  return bytes;
}

std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  return value;
}

std::string tfrecord(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  return length + little_endian(masked_crc32c(crc32c(length)), 4) + std::string(bytes) +
         little_endian(masked_crc32c(crc32c(bytes)), 4);
}

}  // namespace kiln
