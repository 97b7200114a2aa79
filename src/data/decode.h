// Image file bytes -> RGB pixels, as Pillow's convert("RGB") gives them. The kind is told from the
// bytes. JPEG (baseline, progressive, grey, CMYK, YCCK), PNG, BMP, PPM/PGM, TIFF, WebP. 16-bit
// samples keep their high byte. EXIF rotation is not applied. All functions are pure and may run in
// any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/image.h"

namespace kiln {

// Images with more pixels than this are refused before anything is allocated.
constexpr long long kMaxImagePixels = 178'956'970;  // Pillow's decompression-bomb error limit

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

// A part of an image. It may be used again for another image, to keep its memory.
struct ImagePart {
  ImageSize whole;
  Region region;                     // what `pixels` holds
  std::vector<std::uint8_t> pixels;  // [H, W, 3] of the region, and unused bytes behind them
  std::string damage;                // as DecodedImage's
  PixelView view() const { return {pixels.data(), region}; }
};

// The part of an image of that size that is wanted. Pure.
using ChooseRegion = std::function<Region(ImageSize whole)>;

// As decode_image(), with the same pixels, but only for a region that holds the chosen one: a
// JPEG's rows below it are not read, so damage that lies there may go unnoticed unless the file is
// cut.
void decode_part(std::string_view bytes, const ChooseRegion& choose, ImagePart& part);

// The size from the header alone; `bytes` may be only the first part of the file (64 KiB do for
// nearly all; when the header lies further back, ImageFault says so). Throws ImageFault as above.
ImageSize read_image_size(std::string_view bytes);

// "JPEG", "PNG", … by the first bytes; empty when unknown.
std::string_view image_kind(std::string_view bytes);

}  // namespace kiln
