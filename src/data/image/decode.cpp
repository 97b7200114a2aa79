#include "data/image/image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/tfrecord.h"
#include "data/image/codec.h"
#include "data/image/unread_kind.h"

namespace kiln {
namespace {

using std::string_view_literals::operator""sv;

bool is_jpeg(std::string_view bytes) {
  return bytes.starts_with("\xff\xd8\xff"sv);
}

bool is_png(std::string_view bytes) {
  return bytes.starts_with("\x89PNG\r\n\x1a\n"sv);
}

bool is_bmp(std::string_view bytes) {
  constexpr std::uint32_t kLongestHeader = 124;  // text that begins with "BM" claims more
  return bytes.starts_with("BM"sv) && bytes.size() >= 18 &&
         from_little_endian(bytes.substr(14, 4)) <= kLongestHeader;
}

bool is_pnm(std::string_view bytes) {
  return bytes.size() >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
         " \t\r\n\v\f#"sv.find(bytes[2]) != std::string_view::npos &&
         (bytes[2] == '#' || bytes.size() == 3 ||
          std::isalpha(static_cast<unsigned char>(bytes[3])) == 0);  // "P1 urgent"
}

bool is_tiff(std::string_view bytes) {
  return bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv) ||
         bytes.starts_with("II+\0"sv) || bytes.starts_with("MM\0+"sv);
}

bool is_webp(std::string_view bytes) {
  return bytes.size() >= 12 && bytes.starts_with("RIFF"sv) && bytes.substr(8, 4) == "WEBP"sv;
}

bool is_readable_heic(std::string_view bytes) {
  return is_heic(bytes) && codec::heic_fault().empty();
}

// Adapts a codec that decodes only whole images. Only JPEG can decode a part.
template <void (*kDecode)(std::string_view, ImagePart&)>
void decode_whole(std::string_view bytes, const ChoosePart& choose, ImagePart& part) {
  kDecode(bytes, part);
  choose(part.whole);  // which may throw
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

// The way from stored pixels to upright ones: transposed, then flipped.
class Orientation {
 public:
  // `exif` is a value of read_orientation().
  explicit Orientation(int exif = 1)
      : is_upright_(exif == 1),
        transposes_(exif >= 5),
        flips_rows_(exif == 3 || exif == 4 || exif == 7 || exif == 8),
        flips_columns_(exif == 2 || exif == 3 || exif == 6 || exif == 7) {}

  ImageSize upright(ImageSize stored) const {
    return transposes_ ? ImageSize{stored.width, stored.height} : stored;
  }

  // Chooses the part of the stored image that the upright part comes from. `choose` must outlive
  // the result.
  ChoosePart choosing(const ChoosePart& choose) const {
    if (is_upright_) return choose;
    return [this, &choose](ImageSize stored) {
      const WantedPart wanted = choose(upright(stored));
      const Region flipped = flip(wanted.region, upright(stored));
      // Reduced pixels are counted from the stored image's corner. Other corners are between pixels
      // unless the sides are multiples of every reduction.
      const bool can_shrink = stored.height % 4 == 0 && stored.width % 4 == 0;
      return WantedPart{transposed(flipped), can_shrink ? wanted.shrinks_by : 1};
    };
  }

  // Turns a part that was chosen so.
  void turn_upright(ImagePart& part) const {
    if (is_upright_) return;
    const auto reduced = [&part](int side) { return (side + part.reduction - 1) / part.reduction; };
    const ImageSize whole{reduced(part.whole.height), reduced(part.whole.width)};
    const std::ptrdiff_t stored_row = std::ptrdiff_t{part.region.size.width} * 3;
    const Region region = flip(transposed(part.region), upright(whole));
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

 private:
  Region transposed(const Region& region) const {
    return transposes_ ? Region{region.left, region.top, upright(region.size)} : region;
  }
  Region flip(const Region& region, ImageSize outer) const {
    const auto& [top, left, size] = region;
    return {flips_rows_ ? outer.height - top - size.height : top,
            flips_columns_ ? outer.width - left - size.width : left, size};
  }

  bool is_upright_, transposes_, flips_rows_, flips_columns_;
};

struct Format {
  std::string_view name;
  std::array<std::string_view, 4> extensions;  // of its files; unused entries are empty
  bool (*matches)(std::string_view bytes);     // by the file's first bytes
  void (*decode)(std::string_view bytes, const ChoosePart& choose, ImagePart& part);
  ImageSize (*read_size)(std::string_view bytes);
};

// To add a format, add a pair of functions to codec.h and a row here. The first row that matches is
// used.
constexpr Format kFormats[] = {
    {"JPEG", {".jpg", ".jpeg"}, is_jpeg, codec::decode_jpeg, codec::read_jpeg_size},
    {"PNG", {".png"}, is_png, decode_whole<codec::decode_png>, codec::read_png_size},
    {"BMP", {".bmp"}, is_bmp, decode_whole<codec::decode_bmp>, codec::read_bmp_size},
    {"PNM", {".ppm", ".pgm"}, is_pnm, decode_whole<codec::decode_pnm>, codec::read_pnm_size},
    {"TIFF", {".tif", ".tiff"}, is_tiff, decode_whole<codec::decode_tiff>, codec::read_tiff_size},
    {"WebP", {".webp"}, is_webp, decode_whole<codec::decode_webp>, codec::read_webp_size},
    {"HEIC",
     {".heic", ".heif", ".hif", ".heics"},
     is_readable_heic,
     decode_whole<codec::decode_heic>,
     codec::read_heic_size},
};

const Format* find_format(std::string_view bytes) {
  const auto* found =
      std::ranges::find_if(kFormats, [&](const Format& format) { return format.matches(bytes); });
  return found == std::end(kFormats) ? nullptr : found;
}

// Empty if it is not within `bytes`.
std::optional<Orientation> orientation_of(std::string_view bytes, Exif exif) {
  if (exif == Exif::kIgnore) return Orientation();
  const std::optional<int> found = read_orientation(bytes);
  if (!found) return std::nullopt;
  return Orientation(*found);
}

const Format& format_of(std::string_view bytes) {
  if (const Format* format = find_format(bytes)) return *format;
  throw ImageFault(fault_of_unread(bytes));
}

}  // namespace

std::string text_of(ImageSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

std::string_view image_kind(std::string_view bytes) {
  const Format* format = find_format(bytes);
  return format == nullptr ? std::string_view() : format->name;
}

const std::vector<std::string>& image_extensions() {
  static const std::vector<std::string> kExtensions = [] {
    std::vector<std::string> all;
    for (const Format& format : kFormats)
      for (const std::string_view extension : format.extensions)
        if (!extension.empty()) all.emplace_back(extension);
    return all;
  }();
  return kExtensions;
}

DecodedImage decode_image(std::string_view bytes, Exif exif) {
  ImagePart part;
  decode_part(bytes, exif, codec::choose_whole, part);
  return {{part.whole, std::move(part.pixels)}, std::move(part.damage)};
}

void ImagePart::reserve(std::size_t bytes) {
  if (pixels.size() >= bytes) return;
  std::vector<std::uint8_t>().swap(pixels);
  pixels.resize(bytes);
}

void decode_part(std::string_view bytes, Exif exif, const ChoosePart& choose, ImagePart& part) {
  const Orientation orientation = orientation_of(bytes, exif).value_or(Orientation());
  try {
    format_of(bytes).decode(bytes, orientation.choosing(choose), part);
    orientation.turn_upright(part);
  } catch (const ImageFault&) {
    if (part.pixels.size() > kWholeImageBytes)
      part.pixels = {};  // a broken header may claim any size
    throw;
  }
}

ImageSize read_image_size(std::string_view bytes, Exif exif) {
  const ImageSize stored = format_of(bytes).read_size(bytes);
  const std::optional<Orientation> orientation = orientation_of(bytes, exif);
  if (!orientation) codec::fail_in_header("WebP");
  return orientation->upright(stored);
}

namespace codec {

ImageSize checked_size(std::uint64_t width, std::uint64_t height) {
  constexpr std::uint64_t kMaxSide = 0x7fffffff;
  if (width == 0 || height == 0) throw ImageFault("the image has no pixels");
  if (width > kMaxSide || height > kMaxSide ||
      width * height > static_cast<std::uint64_t>(kMaxImagePixels)) {
    throw ImageFault("too large: " + std::to_string(width) + " x " + std::to_string(height) +
                     " exceeds the limit of " + std::to_string(kMaxImagePixels) + " pixels");
  }
  return {static_cast<int>(height), static_cast<int>(width)};
}

void require_bytes(std::uint64_t available, std::uint64_t needed, std::string_view kind) {
  if (available < needed) throw ImageFault(std::string(kind) + " data ends early");
}

std::string_view without_zero_tail(std::string_view bytes) {
  constexpr std::size_t kMostPadding = 64;
  const std::size_t end = bytes.find_last_not_of('\0') + 1;
  return bytes.size() - end > kMostPadding ? bytes.substr(0, end) : bytes;
}

std::span<std::uint8_t> begin_whole(ImageSize size, ImagePart& part) {
  part.whole = size;
  part.reduction = 1;
  part.region = {0, 0, size};
  part.damage.clear();
  const std::size_t bytes = size.num_pixels() * 3;
  part.reserve(bytes);
  const std::span<std::uint8_t> pixels(part.pixels.data(), bytes);
  std::ranges::fill(pixels, std::uint8_t{0});
  return pixels;
}

std::uint64_t from_big(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb) {
  const int white = 255 - cmyk[3];
  for (int channel = 0; channel < 3; ++channel) {
    const int product = cmyk[channel] * white + 128;
    rgb[channel] =
        static_cast<std::uint8_t>(std::max(0, white - (((product >> 8) + product) >> 8)));
  }
}

void fail_in_header(std::string_view kind) {
  throw ImageFault("the " + std::string(kind) +
                   " header does not end within the bytes read: the file is truncated, or its "
                   "header is too large");
}

}  // namespace codec
}  // namespace kiln
