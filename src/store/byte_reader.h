// Reads little-endian numbers and byte ranges from untrusted input. Out-of-range access throws
// FormatFault.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/crc32c.h"
#include "store/state_dict_file.h"

namespace kiln {

// Returns `bytes[offset, offset + size)`; `what` names the range in the fault's message.
inline std::string_view range_of(std::string_view bytes, std::uint64_t offset, std::uint64_t size,
                                 std::string_view what) {
  if (offset > bytes.size() || size > bytes.size() - offset) {
    throw FormatFault(std::string(what) + " is outside the file (" + std::to_string(size) +
                      " bytes at offset " + std::to_string(offset) + " of " +
                      std::to_string(bytes.size()) + "); the file is truncated or damaged");
  }
  return bytes.substr(offset, size);
}

template <std::unsigned_integral Integer>
Integer little_endian(std::string_view bytes, std::uint64_t offset, std::string_view what) {
  return static_cast<Integer>(from_little_endian(range_of(bytes, offset, sizeof(Integer), what)));
}

template <std::unsigned_integral Integer>
void append_little_endian(std::string& out, Integer value) {
  out += little_endian(value, sizeof(Integer));
}

}  // namespace kiln
