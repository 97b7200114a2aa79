// Images in memory, and conversion between file contents and RGB pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "record/vocabulary.h"

namespace kiln {

std::string text_of(ImageSize size);  // "640 x 480": width and height

struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;  // RGB, [H, W, 3], rows without padding
};

// A rectangle of an image.
struct Region {
  int top = 0;
  int left = 0;
  ImageSize size;
  bool operator==(const Region&) const = default;
};

// Non-owning view of a region's pixels: RGB, [H, W, 3] of the region, rows without padding.
struct PixelView {
  const std::uint8_t* pixels = nullptr;
  Region region;
};

// Decoding of files to RGB pixels as by Pillow's convert("RGB"). The contents tell the format: JPEG
// (baseline, progressive, gray, CMYK, YCCK), PNG, BMP, PPM/PGM, TIFF, WebP; HEIC as by libheif, if
// the system has it. 16-bit samples keep their high byte. With Exif::kApply images are as after
// Pillow's ImageOps.exif_transpose(); a HEIC always is. All functions are pure and thread-safe.

// Larger images are rejected before anything is allocated.
constexpr long long kMaxImagePixels = 178'956'970;  // Pillow's decompression-bomb error limit

// Whether an image of that size may be decoded.
constexpr bool is_plausible(ImageSize size) {
  return size.height > 0 && size.width > 0 &&
         static_cast<long long>(size.height) * size.width <= kMaxImagePixels;
}

// Why an image is bad, as a clause without the file name and without any of the file's bytes, such
// as "not an image: it is text".
class ImageFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DecodedImage {
  Image image;
  std::string damage;  // empty, or why part of the pixels is missing ("JPEG data ends early: 12 of
                       // 32 rows missing")
};

// Throws ImageFault for an unknown format, invalid data, an image that is too large, an empty file,
// or a truncated JPEG with half of its rows or fewer.
DecodedImage decode_image(std::string_view bytes, Exif exif);

// If the whole image takes no more than this, memory is allocated for all of it, so that its other
// parts need no more.
constexpr std::size_t kWholeImageBytes = std::size_t{16} << 20;

// A part of an image, possibly at reduced resolution. Reuse the object for the next image to keep
// its memory.
struct ImagePart {
  ImageSize whole;
  int reduction = 1;                 // one pixel covers this many in each direction; 1, 2 or 4
  Region region;                     // the part in `pixels`, in reduced pixels
  std::vector<std::uint8_t> pixels;  // [H, W, 3] of the region, then unused bytes
  std::string damage;                // as in DecodedImage
  std::vector<std::uint8_t> spare;   // memory of decode_part()
  // Makes `pixels` at least this large. The contents are lost if it grows.
  void reserve(std::size_t bytes);
  PixelView view() const { return {pixels.data(), region}; }
};

struct WantedPart {
  Region region;
  double shrinks_by = 1;  // the caller will shrink the part by this factor in each direction
};

// Chooses the part needed of an image of that size. Pure.
using ChoosePart = std::function<WantedPart(ImageSize whole)>;

// As decode_image(), but only for a region that contains the wanted one. Rows of a JPEG below the
// region are not read, so damage there may go unnoticed unless the file is truncated. The pixels
// equal those of decode_image() unless they will be shrunk by a factor of 6 or more: a JPEG is then
// decoded at half its resolution, and from 16 on at a quarter. Once shrunk to 32 pixels or more in
// each direction, the PSNR relative to the full-resolution result is at least 40 dB, but single
// values may differ by more than 1. This is used only for random crops. See README.md.
void decode_part(std::string_view bytes, Exif exif, const ChoosePart& choose, ImagePart& part);

// Reads the size from the header. `bytes` may be only the beginning of the file (64 KiB are nearly
// always enough; otherwise ImageFault says so). An orientation after a PNG's pixels does not count.
// Throws ImageFault as above.
ImageSize read_image_size(std::string_view bytes, Exif exif);

// The EXIF orientation of an image file, 1 (upright) to 8, as Pillow reads it from JPEG's APP1
// segment, PNG's eXIf chunk, WebP's EXIF chunk or TIFF's own tag (CIPA DC-008, 4.6.4 A; XMP is not
// read). 1 if it has none, or none that is valid. Empty if a WebP announces EXIF data that is not
// in `bytes`, which may be the beginning of the file or anything else. Reads headers only, and
// never fails.
std::optional<int> read_orientation(std::string_view bytes);

// "JPEG", "PNG", … according to the first bytes; empty if unknown.
std::string_view image_kind(std::string_view bytes);

// File name extensions of all formats: ".jpg", ".jpeg", ".png", …
const std::vector<std::string>& image_extensions();

// Encoding, for images drawn by the program itself.

std::string encode_jpeg(const Image& image, int quality);
std::string encode_png(const Image& image);

}  // namespace kiln
