// Draws and encodes images for the tests of data/.
#pragma once

#include <string>

#include "data/image/image.h"

namespace kiln::test {

// A smooth image that lossy codecs preserve well: red increases to the right, green downwards, blue
// with both.
Image gradient(int height, int width);

// An image in which every pixel has its own color, and neighbors differ.
Image noise(int height, int width);

// A single color.
Image plain(int height, int width, std::uint8_t red, std::uint8_t green, std::uint8_t blue);

struct JpegForm {
  int quality = 95;
  bool progressive = false;
  bool gray = false;
  bool cmyk = false;  // inverted, as Adobe writes it; without black ink
  int restart_rows = 0;
  int chroma_width = 2;  // pixels that share a chroma sample, across and down
  int chroma_height = 2;
};

std::string encode_jpeg(const Image& image, const JpegForm& form = {});

// 8 or 16 bits per sample (the low byte of 16 is arbitrary), with or without a half-transparent
// alpha channel.
std::string encode_png(const Image& image, int bits = 8, bool alpha = false);

std::string encode_ppm(const Image& image);  // raw, maximum 255
std::string encode_bmp(const Image& image);  // 24 bits, bottom row first

// Uncompressed, little-endian, directory first; 8 or 16 bits per sample.
std::string encode_tiff(const Image& image, int bits = 8);
std::string encode_webp_lossless(const Image& image);
std::string encode_webp(const Image& image);  // lossy

// The largest difference between samples of two images; 256 if their sizes differ.
int largest_difference(const Image& a, const Image& b);

}  // namespace kiln::test
