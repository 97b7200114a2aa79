// Images drawn and encoded for the tests of the data room.
#pragma once

#include <string>

#include "data/image/image.h"

namespace kiln::test {

// A smooth picture, so that lossy codecs keep it close: red grows to the right, green downwards,
// blue with both.
Image gradient(int height, int width);

// A picture in which every pixel has a color of its own, and neighbors differ.
Image noise(int height, int width);

// One color all over.
Image plain(int height, int width, std::uint8_t red, std::uint8_t green, std::uint8_t blue);

struct JpegForm {
  int quality = 95;
  bool progressive = false;
  bool gray = false;
  bool cmyk = false;  // inverted, as Adobe writes it; with black ink nowhere
  int restart_rows = 0;
  int chroma_width = 2;  // pixels that share a chroma sample, across and down
  int chroma_height = 2;
};

std::string encode_jpeg(const Image& image, const JpegForm& form = {});

// 8 or 16 bits a sample (the low byte of 16 is then junk), with or without a half-transparent alpha
// channel.
std::string encode_png(const Image& image, int bits = 8, bool alpha = false);

std::string encode_ppm(const Image& image);  // raw, maximum 255
std::string encode_bmp(const Image& image);  // 24 bits, bottom row first

// Uncompressed, little-endian, directory first; 8 or 16 bits a sample.
std::string encode_tiff(const Image& image, int bits = 8);
std::string encode_webp_lossless(const Image& image);

// The largest difference between two images' samples; 256 where the sizes differ.
int largest_difference(const Image& a, const Image& b);

}  // namespace kiln::test
