// TFRecord: its framing, the checksum that it stores (CRC-32C, Castagnoli; RFC 3720, appendix B.4),
// and the Protocol Buffers messages in its records.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

// `crc` is the CRC of the preceding bytes, for data that arrives in pieces.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0);

// The form in which TFRecord stores a CRC, so that the CRC of data that itself contains CRCs stays
// strong.
constexpr std::uint32_t masked_crc32c(std::uint32_t crc) {
  constexpr std::uint32_t kMaskDelta = 0xA282EAD8;
  return std::rotr(crc, 15) + kMaskDelta;
}

// The lowest `num_bytes` bytes of `value`, least significant byte first.
std::string little_endian(std::uint64_t value, int num_bytes);
// The number that is stored so, in at most 8 bytes.
std::uint64_t from_little_endian(std::string_view bytes);

// A whole record: length, masked CRC of the length, data, masked CRC of the data; little-endian.
std::string tfrecord(std::string_view bytes);

// A Protocol Buffers message in wire format. Fields are written in the order of the calls.
class ProtoMessage {
 public:
  ProtoMessage& integer(int field, std::uint64_t value);
  ProtoMessage& real(int field, double value);       // double
  ProtoMessage& small_real(int field, float value);  // float
  ProtoMessage& text(int field, std::string_view bytes);
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace kiln
