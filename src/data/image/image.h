// Images in memory, and file bytes <-> RGB pixels.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct ImageSize {
  int height = 0;
  int width = 0;
  bool operator==(const ImageSize&) const = default;
};

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

// Pixels of a region, not owned: RGB, [H, W, 3] of the region, rows without padding.
struct PixelView {
  const std::uint8_t* pixels = nullptr;
  Region region;
};

// Image file bytes -> RGB pixels, as Pillow's convert("RGB") gives them. The kind is told from the
// bytes. JPEG (baseline, progressive, gray, CMYK, YCCK), PNG, BMP, PPM/PGM, TIFF, WebP. 16-bit
// samples keep their high byte. EXIF rotation is not applied. All functions are pure and may run in
// any thread.

// Images with more pixels than this are refused before anything is allocated.
constexpr long long kMaxImagePixels = 178'956'970;  // Pillow's decompression-bomb error limit

// Whether an image of that size may be decoded.
constexpr bool is_plausible(ImageSize size) {
  return size.height > 0 && size.width > 0 &&
         static_cast<long long>(size.height) * size.width <= kMaxImagePixels;
}

// Why one image is bad: a clause without the file name, such as "not an image: it begins with
// '<!DOCTYPE'".
class ImageFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DecodedImage {
  Image image;
  std::string damage;  // empty, or why part of the pixels is missing ("JPEG data ends early: 12 of
                       // 32 rows missing")
};

// Throws ImageFault: unknown kind, broken data, too large, zero bytes, a truncated JPEG without
// more than half its rows.
DecodedImage decode_image(std::string_view bytes);

// An image that fits gets room for the whole of it, whatever part is wanted: another epoch's part
// then needs no more memory.
constexpr std::size_t kWholeImageBytes = std::size_t{16} << 20;

// A part of an image, maybe at a lower resolution. It may be used again for another image, to keep
// its memory.
struct ImagePart {
  ImageSize whole;
  int reduction = 1;                 // a pixel stands for so many of the image, each way; 1, 2 or 4
  Region region;                     // what `pixels` holds, in these pixels
  std::vector<std::uint8_t> pixels;  // [H, W, 3] of the region, and unused bytes behind them
  std::string damage;                // as DecodedImage's
  // `pixels` has at least so many bytes from now on; what was in it is lost when it grows.
  void reserve(std::size_t bytes);
  PixelView view() const { return {pixels.data(), region}; }
};

struct WantedPart {
  Region region;
  double shrinks_by = 1;  // what is made of it may be taken as so many times smaller, each way
};

// What is wanted of an image of that size. Pure.
using ChoosePart = std::function<WantedPart(ImageSize whole)>;

// As decode_image(), but only for a region that holds the wanted one: a JPEG's rows below it are
// not read, so damage that lies there may go unnoticed unless the file is cut. Pixels are those of
// decode_image() unless they may shrink by 6 or more: a JPEG is then decoded at half its
// resolution, from 16 on at a quarter. What becomes of it, 32 pixels or more each way, stays within
// 40 dB of what becomes of the full resolution, but not within 1 of it: for random parts alone. See
// README.md.
void decode_part(std::string_view bytes, const ChoosePart& choose, ImagePart& part);

// The size from the header alone; `bytes` may be only the first part of the file (64 KiB do for
// nearly all; when the header lies further back, ImageFault says so). Throws ImageFault as above.
ImageSize read_image_size(std::string_view bytes);

// "JPEG", "PNG", … by the first bytes; empty when unknown.
std::string_view image_kind(std::string_view bytes);

// Pixels -> file bytes, for the images that the program draws itself.

std::string encode_jpeg(const Image& image, int quality);
std::string encode_png(const Image& image);

}  // namespace kiln
