#include "base/proto_message.h"

#include <bit>

#include "base/crc32c.h"

namespace kiln {
namespace {

constexpr int kVarint = 0, kEightBytes = 1, kCounted = 2, kFourBytes = 5;

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

}  // namespace kiln
