#include "data/image/image.h"

// jpeglib.h needs size_t and FILE, which it does not declare; the headers of image.h do.
#include <jpeglib.h>
#include <spng.h>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <memory>

#include "base/error.h"

namespace kiln {
namespace {

// Our own images can always be encoded, so a codec error is a bug.
[[noreturn]] void fail_jpeg(j_common_ptr) {
  throw InternalError("libjpeg refused to encode");
}

}  // namespace

std::string encode_jpeg(const Image& image, int quality) {
  jpeg_error_mgr errors{};
  jpeg_compress_struct encoder{};
  encoder.err = jpeg_std_error(&errors);
  errors.error_exit = fail_jpeg;
  jpeg_create_compress(&encoder);
  unsigned char* buffer = nullptr;
  unsigned long num_bytes = 0;  // NOLINT: the type of libjpeg
  jpeg_mem_dest(&encoder, &buffer, &num_bytes);
  encoder.image_width = static_cast<JDIMENSION>(image.size.width);
  encoder.image_height = static_cast<JDIMENSION>(image.size.height);
  encoder.input_components = 3;
  encoder.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, quality, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  while (encoder.next_scanline < encoder.image_height) {
    const std::size_t offset = std::size_t{encoder.next_scanline} * encoder.image_width * 3;
    auto* row = const_cast<JSAMPLE*>(image.pixels.data() + offset);  // libjpeg only reads it
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string bytes(reinterpret_cast<const char*>(buffer), num_bytes);
  jpeg_destroy_compress(&encoder);
  std::free(buffer);
  return bytes;
}

std::string encode_png(const Image& image) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> encoder(spng_ctx_new(SPNG_CTX_ENCODER),
                                                               spng_ctx_free);
  if (!encoder) throw std::bad_alloc();
  spng_set_option(encoder.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(image.size.width);
  header.height = static_cast<std::uint32_t>(image.size.height);
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  header.bit_depth = 8;
  spng_set_ihdr(encoder.get(), &header);
  int fault = spng_encode_image(encoder.get(), image.pixels.data(), image.pixels.size(),
                                SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  std::size_t num_bytes = 0;
  void* buffer = fault == 0 ? spng_get_png_buffer(encoder.get(), &num_bytes, &fault) : nullptr;
  if (buffer == nullptr) throw InternalError(std::string("libspng: ") + spng_strerror(fault));
  std::string bytes(static_cast<const char*>(buffer), num_bytes);
  std::free(buffer);
  return bytes;
}

}  // namespace kiln
