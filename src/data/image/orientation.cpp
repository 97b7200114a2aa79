#include "data/image/orientation.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "data/image/codec.h"
#include "data/image/image.h"

namespace kiln {
namespace {

using codec::big16;
using codec::big32;
using codec::little32;
using std::string_view_literals::operator""sv;

constexpr std::uint32_t kOrientationTag = 274;
constexpr std::size_t kMaxProfileBytes = 1 << 20;

// Returns the contents of the APP1 segments with EXIF data (ITU-T T.81, B.1.1.4), which continue
// each other: then they are joined in `joined`.
std::string_view exif_of_jpeg(std::string_view bytes, std::string& joined) {
  constexpr auto kSignature = "Exif\0\0"sv;
  std::string_view found;
  for (std::size_t at = codec::jpeg_marker(bytes, 2); at + 4 <= bytes.size();) {
    const auto marker = static_cast<std::uint8_t>(bytes[at + 1]);
    if (marker == 0xd9 || marker == 0xda) break;  // end of image, start of scan
    if (codec::has_no_length(marker)) {
      at = codec::jpeg_marker(bytes, at + 2);
      continue;
    }
    const std::size_t length = big16(bytes, at + 2);
    if (length < 2) break;
    const std::string_view content = bytes.substr(at + 4, length - 2);
    if (marker == 0xe1 && content.starts_with(kSignature)) {
      if (!found.empty()) {
        joined = std::string(found) + std::string(content.substr(kSignature.size()));
        found = joined;
      } else {
        found = content;
      }
    }
    at = codec::jpeg_marker(bytes, at + 2 + length);
  }
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
    const std::size_t length = big32(bytes, at);
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
    const std::size_t length = little32(bytes, at + 4);
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

// Copies pixels of 3 bytes to consecutive places of `to`, an image of `size`. Pixel (row, column)
// is taken from `from`, plus that many steps in bytes. Goes tile by tile, since a column of the
// source would leave the cache before its neighbor is read.
struct Steps {
  std::ptrdiff_t row, column;
};
void copy_in_tiles(const std::uint8_t* from, Steps steps, ImageSize size, std::uint8_t* to) {
  constexpr int kTile = 32;
  for (int top = 0; top < size.height; top += kTile)
    for (int left = 0; left < size.width; left += kTile)
      for (int row = top; row < std::min(top + kTile, size.height); ++row) {
        const std::uint8_t* pixel = from + row * steps.row + left * steps.column;
        std::uint8_t* out = to + (std::ptrdiff_t{row} * size.width + left) * 3;
        for (int column = left; column < std::min(left + kTile, size.width); ++column) {
          std::memcpy(out, pixel, 3);
          pixel += steps.column;
          out += 3;
        }
      }
}

ImageSize transposed(ImageSize size) {
  return {size.width, size.height};
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

Orientation::Orientation(int exif)
    : is_upright_(exif == 1),
      transposes_(exif >= 5),
      flips_rows_(exif == 3 || exif == 4 || exif == 7 || exif == 8),
      flips_columns_(exif == 2 || exif == 3 || exif == 6 || exif == 7) {}

ImageSize Orientation::upright(ImageSize stored) const {
  return transposes_ ? transposed(stored) : stored;
}

Region Orientation::upright_region(const Region& stored, ImageSize whole) const {
  const ImageSize size = upright(stored.size), outer = upright(whole);
  const int top = transposes_ ? stored.left : stored.top;
  const int left = transposes_ ? stored.top : stored.left;
  return {flips_rows_ ? outer.height - top - size.height : top,
          flips_columns_ ? outer.width - left - size.width : left, size};
}

Region Orientation::stored_region(const Region& upright, ImageSize stored) const {
  const ImageSize outer = this->upright(stored), size = upright.size;
  const int top = flips_rows_ ? outer.height - upright.top - size.height : upright.top;
  const int left = flips_columns_ ? outer.width - upright.left - size.width : upright.left;
  return transposes_ ? Region{left, top, transposed(size)} : Region{top, left, size};
}

ChoosePart Orientation::choosing(const ChoosePart& choose) const {
  if (is_upright_) return choose;
  return [this, &choose](ImageSize stored) {
    const WantedPart wanted = choose(upright(stored));
    // Reduced pixels are counted from the stored image's corner. Other corners are between pixels
    // unless the sides are multiples of every reduction.
    const bool can_shrink = stored.height % 4 == 0 && stored.width % 4 == 0;
    return WantedPart{stored_region(wanted.region, stored), can_shrink ? wanted.shrinks_by : 1};
  };
}

void Orientation::turn_upright(ImagePart& part) const {
  if (is_upright_) return;
  const auto reduced = [&part](int side) { return (side + part.reduction - 1) / part.reduction; };
  const ImageSize whole{reduced(part.whole.height), reduced(part.whole.width)};
  const std::ptrdiff_t stored_row = std::ptrdiff_t{part.region.size.width} * 3;
  const Region region = upright_region(part.region, whole);
  Steps steps = transposes_ ? Steps{3, stored_row} : Steps{stored_row, 3};
  const std::uint8_t* from = part.pixels.data();
  if (flips_rows_) {
    from += (region.size.height - 1) * steps.row;
    steps.row = -steps.row;
  }
  if (flips_columns_) {
    from += (region.size.width - 1) * steps.column;
    steps.column = -steps.column;
  }
  part.spare.resize(std::max(part.spare.size(), part.pixels.size()));
  copy_in_tiles(from, steps, region.size, part.spare.data());
  part.pixels.swap(part.spare);
  part.whole = upright(part.whole);
  part.region = region;
}

}  // namespace kiln
