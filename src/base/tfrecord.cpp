#include "base/tfrecord.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "base/system.h"

namespace kiln {
namespace {

constexpr auto kTable = [] {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // Castagnoli, bit-reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    table[byte] = crc;
  }
  return table;
}();

// For old processors, which lack the instruction.
constexpr std::uint32_t by_table(std::string_view bytes, std::uint32_t crc) {
  for (const char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 255U];
  return crc;
}
static_assert(~by_table("123456789", ~0U) == 0xE3069283, "the polynomial's check value");

[[gnu::target("sse4.2")]] std::uint32_t by_instruction(std::string_view bytes, std::uint32_t crc) {
  std::uint64_t wide = crc, word = 0;
  for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const char byte : bytes) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(byte));
  return crc;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) {
  static const bool kHasInstruction = cpu_has("sse4_2");
  return ~(kHasInstruction ? by_instruction(bytes, ~crc) : by_table(bytes, ~crc));
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

constexpr int kVarint = 0, kEightBytes = 1, kCounted = 2, kFourBytes = 5;
void ProtoMessage::varint(std::uint64_t value) {
  for (; value > 127; value >>= 7) bytes_ += static_cast<char>(value | 128U);
  bytes_ += static_cast<char>(value);
}

ProtoMessage& ProtoMessage::integer(int field, std::uint64_t value) {
  varint(static_cast<std::uint64_t>(field) << 3 | kVarint);
  varint(value);
  return *this;
}

ProtoMessage& ProtoMessage::real(int field, double value) {
  varint(static_cast<std::uint64_t>(field) << 3 | kEightBytes);
  bytes_ += little_endian(std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

ProtoMessage& ProtoMessage::small_real(int field, float value) {
  varint(static_cast<std::uint64_t>(field) << 3 | kFourBytes);
  bytes_ += little_endian(std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

ProtoMessage& ProtoMessage::text(int field, std::string_view bytes) {
  varint(static_cast<std::uint64_t>(field) << 3 | kCounted);
  varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

}  // namespace kiln
