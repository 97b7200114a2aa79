// Text files that people write. Some editors begin them with a byte-order mark (U+FEFF in UTF-8),
// which is no part of the text: every reader of such a file calls one of these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/files.h"

namespace kiln {

constexpr std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

// read_file() without the mark.
inline std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return std::string(without_byte_order_mark(read_file(path, max_bytes)));
}

}  // namespace kiln
