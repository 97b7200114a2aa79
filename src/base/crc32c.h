// CRC-32C (Castagnoli; RFC 3720, appendix B.4), and TFRecord, the framing that stores it.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

// Of bytes that come in pieces: `crc` is the value of those before.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0);
// The same on a processor without an instruction for it.
std::uint32_t crc32c_by_tables(std::string_view bytes, std::uint32_t crc = 0);

// As TFRecord stores it, which keeps checksums of data that contains checksums strong.
constexpr std::uint32_t masked_crc32c(std::uint32_t crc) {
  constexpr std::uint32_t kMaskDelta = 0xA282EAD8;
  return std::rotr(crc, 15) + kMaskDelta;
}

// The lowest `num_bytes` bytes of `value`, the lowest first.
std::string little_endian(std::uint64_t value, int num_bytes);

// A record: length, masked CRC of it, bytes, masked CRC of these; little-endian.
std::string tfrecord(std::string_view bytes);

}  // namespace kiln
