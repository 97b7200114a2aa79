#include "data/make_image.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include <jpeglib.h>
#include <spng.h>
#include <webp/encode.h>

#include "base/random.h"

namespace kiln::test {
namespace {

void put_little(std::string& bytes, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

std::string taken(std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  std::free(data);
  return bytes;
}

std::string taken_from_webp(std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  WebPFree(data);
  return bytes;
}

// One row in the channels of the format; `jpeg_write_scanlines` needs a mutable row.
void fill_row(const std::uint8_t* rgb, int width, const JpegForm& form, std::uint8_t* row) {
  for (int x = 0; x < width; ++x, rgb += 3) {
    if (form.gray) {
      *row++ = rgb[0];
    } else {
      row = std::copy_n(rgb, 3, row);
      if (form.cmyk) *row++ = 255;
    }
  }
}

}  // namespace

Image gradient(int height, int width) {
  Image image{{height, width}, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.pixels.push_back(static_cast<std::uint8_t>(40 + 160 * x / width));
      image.pixels.push_back(static_cast<std::uint8_t>(40 + 160 * y / height));
      image.pixels.push_back(static_cast<std::uint8_t>(40 + 80 * x / width + 80 * y / height));
    }
  }
  return image;
}

Image noise(int height, int width) {
  Image image{{height, width}, {}};
  RandomSequence random{7};
  image.pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
  for (std::uint8_t& sample : image.pixels) sample = static_cast<std::uint8_t>(random.below(256));
  return image;
}

Image plain(int height, int width, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  Image image{{height, width}, {}};
  for (int i = 0; i < height * width; ++i) {
    for (const std::uint8_t value : {red, green, blue}) image.pixels.push_back(value);
  }
  return image;
}

std::string encode_jpeg(const Image& image, const JpegForm& form) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(image.size.width);
  info.image_height = static_cast<JDIMENSION>(image.size.height);
  info.input_components = form.gray ? 1 : form.cmyk ? 4 : 3;
  info.in_color_space = form.gray ? JCS_GRAYSCALE : form.cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, form.quality, TRUE);
  info.restart_in_rows = form.restart_rows;
  if (!form.gray && !form.cmyk) {
    info.comp_info[0].h_samp_factor = form.chroma_width;
    info.comp_info[0].v_samp_factor = form.chroma_height;
  }
  if (form.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(image.size.width) * 4);
  for (int y = 0; y < image.size.height; ++y) {
    fill_row(image.pixels.data() + y * image.size.width * 3, image.size.width, form, row.data());
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return taken(data, size);
}

std::string encode_png(const Image& image, int bits, bool alpha) {
  std::string samples;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    // libspng expects 16-bit samples in native byte order.
    if (bits == 16) samples += '\x5a';
    samples += static_cast<char>(image.pixels[i]);
    if (alpha && i % 3 == 2) samples.append(static_cast<std::size_t>(bits) / 8, '\x70');
  }
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(image.size.width);
  header.height = static_cast<std::uint32_t>(image.size.height);
  header.bit_depth = static_cast<std::uint8_t>(bits);
  header.color_type = alpha ? SPNG_COLOR_TYPE_TRUECOLOR_ALPHA : SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context, &header);
  int status = spng_encode_image(context, samples.data(), samples.size(), SPNG_FMT_PNG,
                                 SPNG_ENCODE_FINALIZE);
  std::size_t size = 0;
  void* data = status == 0 ? spng_get_png_buffer(context, &size, &status) : nullptr;
  spng_ctx_free(context);
  if (data == nullptr) throw std::runtime_error(spng_strerror(status));
  return taken(static_cast<std::uint8_t*>(data), size);
}

std::string encode_ppm(const Image& image) {
  return "P6\n# a comment\n" + std::to_string(image.size.width) + " " +
         std::to_string(image.size.height) + "\n255\n" +
         std::string(image.pixels.begin(), image.pixels.end());
}

std::string encode_bmp(const Image& image) {
  const int stride = (image.size.width * 3 + 3) / 4 * 4;
  std::string bytes = "BM";
  const auto data_size = static_cast<std::uint32_t>(stride * image.size.height);
  for (const std::uint32_t value : {54 + data_size, 0U, 54U, 40U}) put_little(bytes, value, 4);
  put_little(bytes, static_cast<std::uint32_t>(image.size.width), 4);
  put_little(bytes, static_cast<std::uint32_t>(image.size.height), 4);
  put_little(bytes, 1, 2);
  put_little(bytes, 24, 2);
  for (const std::uint32_t value : {0U, data_size, 2835U, 2835U, 0U, 0U})
    put_little(bytes, value, 4);
  for (int y = image.size.height - 1; y >= 0; --y) {
    const std::uint8_t* rgb = image.pixels.data() + y * image.size.width * 3;
    for (int x = 0; x < image.size.width; ++x, rgb += 3) {
      for (const int channel : {2, 1, 0}) bytes += static_cast<char>(rgb[channel]);
    }
    bytes.append(static_cast<std::size_t>(stride - image.size.width * 3), '\0');
  }
  return bytes;
}

std::string encode_tiff(const Image& image, int bits) {
  struct Entry {
    std::uint32_t tag, type, count, value;
  };
  constexpr std::uint32_t kShort = 3, kLong = 4, kBitsAt = 160, kDataAt = 200;
  const auto depth = static_cast<std::uint32_t>(bits);
  const auto size = static_cast<std::uint32_t>(image.pixels.size()) * depth / 8;
  const auto width = static_cast<std::uint32_t>(image.size.width);
  const auto height = static_cast<std::uint32_t>(image.size.height);
  const Entry entries[] = {{256, kLong, 1, width},    {257, kLong, 1, height},
                           {258, kShort, 3, kBitsAt}, {259, kShort, 1, 1},
                           {262, kShort, 1, 2},       {273, kLong, 1, kDataAt},
                           {277, kShort, 1, 3},       {278, kLong, 1, height},
                           {279, kLong, 1, size},     {284, kShort, 1, 1}};
  std::string bytes("II*\0", 4);
  put_little(bytes, 8, 4);
  put_little(bytes, std::size(entries), 2);
  for (const Entry& entry : entries) {
    put_little(bytes, entry.tag, 2);
    put_little(bytes, entry.type, 2);
    put_little(bytes, entry.count, 4);
    put_little(bytes, entry.value, 4);
  }
  bytes.resize(kBitsAt);
  for (int i = 0; i < 3; ++i) put_little(bytes, depth, 2);
  bytes.resize(kDataAt);
  for (const std::uint8_t value : image.pixels) {
    if (bits == 16) bytes += '\x5a';
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string encode_webp_lossless(const Image& image) {
  std::uint8_t* data = nullptr;
  const std::size_t size = WebPEncodeLosslessRGB(image.pixels.data(), image.size.width,
                                                 image.size.height, image.size.width * 3, &data);
  return taken_from_webp(data, size);
}

std::string encode_webp(const Image& image) {
  constexpr float kQuality = 90;
  std::uint8_t* data = nullptr;
  const std::size_t size = WebPEncodeRGB(image.pixels.data(), image.size.width, image.size.height,
                                         image.size.width * 3, kQuality, &data);
  return taken_from_webp(data, size);
}

int largest_difference(const Image& a, const Image& b) {
  if (a.size != b.size || a.pixels.size() != b.pixels.size()) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  }
  return largest;
}

}  // namespace kiln::test
