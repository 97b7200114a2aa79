#include "report/sinks/event_file.h"

#include <array>
#include <bit>

namespace kiln {
namespace {

constexpr int kVarint = 0, kEightBytes = 1, kCounted = 2, kFourBytes = 5;

std::string little_endian(std::uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes += static_cast<char>(value >> 8 * i & 255U);
  return bytes;
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // of CRC-32C, its bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    table[byte] = crc;
  }
  return table;
}

// Keeps checksums of data that contains checksums strong.
std::uint32_t masked(std::uint32_t crc) {
  constexpr std::uint32_t kMaskDelta = 0xA282EAD8;
  return std::rotr(crc, 15) + kMaskDelta;
}

}  // namespace

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

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array kTable = crc_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 255U];
  return ~crc;
}

std::string tfrecord(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  return length + little_endian(masked(crc32c(length)), 4) + std::string(bytes) +
         little_endian(masked(crc32c(bytes)), 4);
}

}  // namespace kiln
