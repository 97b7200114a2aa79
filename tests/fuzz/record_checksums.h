// Checksums that no fuzzer would find.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/tfrecord.h"
#include "data/archive/record_reader.h"

namespace kiln::fuzz {

// A TFRecord whose lengths have the right checksums, and its data too: all of it, or only records
// whose size is not a multiple of 4.
inline std::string with_record_checksums(std::string bytes, bool all_data) {
  std::size_t at = 0;
  while (bytes.size() - at > kTfRecordHeaderBytes) {
    const std::string_view length = std::string_view(bytes).substr(at, 8);
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < 8; ++i)
      size |= static_cast<std::uint64_t>(static_cast<unsigned char>(length[i])) << 8 * i;
    bytes.replace(at + 8, 4, little_endian(masked_crc32c(crc32c(length)), 4));
    at += kTfRecordHeaderBytes;
    if (size > bytes.size() - at || bytes.size() - at - size < kTfRecordTrailerBytes) break;
    const std::string_view data = std::string_view(bytes).substr(at, size);
    if (all_data || size % 4 != 0)
      bytes.replace(at + size, 4, little_endian(masked_crc32c(crc32c(data)), 4));
    at += size + kTfRecordTrailerBytes;
  }
  return bytes;
}

}  // namespace kiln::fuzz
