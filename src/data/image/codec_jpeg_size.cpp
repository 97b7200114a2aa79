// Reads the size of a JPEG from its first frame header (ITU-T T.81, B.2.2), without libjpeg.
#include <algorithm>

#include "data/image/codec.h"

namespace kiln::codec {
namespace {

constexpr std::uint8_t kEndOfImage = 0xd9, kStartOfScan = 0xda;

bool is_frame(std::uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

}  // namespace

std::size_t jpeg_marker(std::string_view bytes, std::size_t from) {
  std::size_t at = bytes.find('\xff', from);
  while (at < bytes.size() && at + 1 < bytes.size() &&
         (bytes[at + 1] == '\0' || bytes[at + 1] == '\xff'))
    at = bytes.find('\xff', at + 1);
  return std::min(at, bytes.size());
}

bool has_no_length(std::uint8_t marker) {
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
}

ImageSize read_jpeg_size(std::string_view bytes) {
  for (std::size_t at = jpeg_marker(bytes, 2); at + 4 <= bytes.size();) {
    const auto marker = static_cast<std::uint8_t>(bytes[at + 1]);
    if (has_no_length(marker)) {
      at = jpeg_marker(bytes, at + 2);
      continue;
    }
    if (marker == kEndOfImage || marker == kStartOfScan)
      throw ImageFault("broken JPEG: no frame header");
    if (is_frame(marker)) {
      if (at + 9 > bytes.size()) break;
      return checked_size(big16(bytes, at + 7), big16(bytes, at + 5));
    }
    at = jpeg_marker(bytes, at + 2 + std::max<std::size_t>(2, big16(bytes, at + 2)));
  }
  fail_in_header("JPEG");
}

}  // namespace kiln::codec
