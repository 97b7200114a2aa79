#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include <jpeglib.h>

#include "data/image/image.h"
#include "data/image/resample.h"
#include "kiln_bench.h"

namespace kiln {
namespace {

Image decoded(std::string_view bytes) {
  jpeg_error_mgr errors{};
  jpeg_decompress_struct decoder{};
  decoder.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&decoder);
  jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&decoder, TRUE);
  decoder.out_color_space = JCS_RGB;
  jpeg_start_decompress(&decoder);
  Image image{{static_cast<int>(decoder.output_height), static_cast<int>(decoder.output_width)},
              {}};
  const std::size_t width = std::size_t{decoder.output_width} * 3;
  image.pixels.resize(width * decoder.output_height);
  while (decoder.output_scanline < decoder.output_height) {
    JSAMPLE* row = image.pixels.data() + decoder.output_scanline * width;
    jpeg_read_scanlines(&decoder, &row, 1);
  }
  jpeg_finish_decompress(&decoder);
  jpeg_destroy_decompress(&decoder);
  return image;
}

}  // namespace

std::string bare_jpeg(std::string_view bytes, int short_side, int quality) {
  const Image image = decoded(bytes);
  if (std::min(image.size.height, image.size.width) <= short_side) return std::string(bytes);
  return encode_jpeg(resized(image, resized_size(image.size, short_side)), quality);
}

}  // namespace kiln
