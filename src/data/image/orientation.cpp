// How a camera was held, as image files tell it.
#include <zlib.h>

#include <algorithm>
#include <string>

#include "base/tfrecord.h"
#include "data/image/codec.h"

namespace kiln {
namespace {

using codec::from_big;
using std::string_view_literals::operator""sv;

constexpr std::uint32_t kOrientationTag = 274;
constexpr std::size_t kMaxProfileBytes = 1 << 20;

// Returns the contents of the APP1 segments with EXIF data (ITU-T T.81, B.1.1.4), which continue
// each other: then they are joined in `joined`.
std::string_view exif_of_jpeg(std::string_view bytes, std::string& joined) {
  constexpr auto kSignature = "Exif\0\0"sv;
  std::string_view found;
  codec::visit_jpeg_segments(bytes, [&](std::uint8_t marker, std::size_t at) {
    const std::size_t length = from_big(bytes, at + 2, 2);
    if (marker == 0xd9 || marker == 0xda || length < 2) return false;  // end of image, first scan
    const std::string_view content = bytes.substr(at + 4, length - 2);
    if (marker != 0xe1 || !content.starts_with(kSignature)) return true;
    if (!found.empty())
      joined = std::string(found) + std::string(content.substr(kSignature.size()));
    found = found.empty() ? content : std::string_view(joined);
    return true;
  });
  return found;
}

// Unpacks the EXIF data that ImageMagick stored as text before PNG had a chunk for it: an empty
// line, "exif", the number of bytes, and then the bytes as hexadecimal digits. `text` is that of a
// tEXt chunk, or of a zTXt chunk after `is_packed`.
std::string exif_of_profile(std::string_view text, bool is_packed) {
  std::string unpacked;
  if (is_packed) {
    unpacked.resize(kMaxProfileBytes);
    uLongf size = unpacked.size();
    if (text.empty() || ::uncompress(reinterpret_cast<Bytef*>(unpacked.data()), &size,
                                     reinterpret_cast<const Bytef*>(text.data() + 1),
                                     static_cast<uLong>(text.size() - 1)) != Z_OK)
      return {};
    text = std::string_view(unpacked).substr(0, size);
  }
  for (int line = 0; line < 3; ++line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  std::string exif;
  int high = -1;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (c == '\n') continue;
    if (digit < 0) return {};
    if (high >= 0) exif += static_cast<char>(high * 16 + digit);
    high = high < 0 ? digit : -1;
  }
  return exif;
}

// Returns the contents of the eXIf chunk, which may follow the pixels; without one, those of a text
// with EXIF data, which are kept in `unpacked`.
std::string_view exif_of_png(std::string_view bytes, std::string& unpacked) {
  constexpr auto kKeyword = "Raw profile type exif\0"sv;
  std::string_view found;
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    const std::size_t length = from_big(bytes, at, 4);
    const std::string_view kind = bytes.substr(at + 4, 4), content = bytes.substr(at + 8, length);
    if (kind == "eXIf") found = content;
    if ((kind == "tEXt" || kind == "zTXt") && content.starts_with(kKeyword))
      unpacked = exif_of_profile(content.substr(kKeyword.size()), kind == "zTXt");
    at += 12 + length;
  }
  return found.empty() ? unpacked : found;
}

// Returns the contents of the EXIF chunk, which counts if the header announces it and follows the
// pixels. Empty if it is announced and missing.
std::optional<std::string_view> exif_of_webp(std::string_view bytes) {
  constexpr int kHasExif = 8;
  if (bytes.size() < 21 || bytes.substr(12, 4) != "VP8X" || (bytes[20] & kHasExif) == 0) return "";
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    const std::size_t length = from_little_endian(bytes.substr(at + 4, 4));
    if (bytes.substr(at, 4) == "EXIF") return bytes.substr(at + 8, length);
    at += 8 + length + (length & 1);
  }
  return std::nullopt;
}

// What has to be put together is kept in `own`.
std::optional<std::string_view> exif_of(std::string_view bytes, std::string& own) {
  const std::string_view kind = image_kind(bytes);
  if (kind == "TIFF") return bytes;
  if (kind == "JPEG") return exif_of_jpeg(bytes, own);
  if (kind == "PNG") return exif_of_png(bytes, own);
  return kind == "WebP" ? exif_of_webp(bytes) : "";
}

}  // namespace

std::optional<int> read_orientation(std::string_view bytes) {
  std::string own;
  std::optional<std::string_view> exif = exif_of(bytes, own);
  if (!exif) return std::nullopt;
  while (exif->starts_with("Exif\0\0"sv)) exif->remove_prefix(6);
  if (image_kind(*exif) != "TIFF") return 1;  // EXIF data has TIFF's form
  int found = 1;
  codec::visit_tiff_entries(*exif, [&](const codec::TiffEntry& entry) {
    if (entry.tag != kOrientationTag) return true;
    const bool valid = entry.is_integer && entry.value >= 1 && entry.value <= 8;
    found = valid ? static_cast<int>(entry.value) : 1;  // of repeated entries the last one counts
    return true;
  });
  return found;
}

}  // namespace kiln
