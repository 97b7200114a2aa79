// Decodes and encodes PNG with libspng. Alpha is dropped, and 16-bit samples keep their high byte.
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include <spng.h>

#include "base/error.h"
#include "data/image/codec.h"

namespace kiln {
namespace codec {
namespace {

constexpr std::size_t kMaxChunkBytes = 64 << 20;  // for color profiles, texts and the like
constexpr std::uint64_t kMaxDeflateRatio = 1032;  // according to "zlib Technical Details"

using SpngContext = std::unique_ptr<spng_ctx, void (*)(spng_ctx*)>;

SpngContext make_context(int flags) {
  SpngContext context(spng_ctx_new(flags), spng_ctx_free);
  if (context == nullptr) throw std::bad_alloc();
  return context;
}

void check(int status) {
  if (status == SPNG_OK) return;
  if (status == SPNG_EMEM) throw std::bad_alloc();
  if (status == SPNG_IO_EOF) throw ImageFault("PNG data ends early");
  throw ImageFault("broken PNG: " + std::string(spng_strerror(status)));
}

}  // namespace

void decode_png(std::string_view bytes, ImagePart& part) {
  const SpngContext context = make_context(0);
  check(spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes));
  check(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  const ImageSize size = read_png_size(bytes);
  check(spng_decode_chunks(context.get()));  // verifies the header before memory is allocated
  // A pixel takes at least one bit before compression.
  require_bytes(bytes.size(), size.num_pixels() / 8 / kMaxDeflateRatio, "PNG");
  const auto pixels = begin_whole(size, part);
  check(spng_decode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_RGB8, 0));
}

ImageSize read_png_size(std::string_view bytes) {
  if (bytes.size() < 24) fail_in_header("PNG");
  if (bytes.substr(12, 4) != "IHDR") throw ImageFault("broken PNG: it does not begin with IHDR");
  return checked_size(from_big(bytes, 16, 4), from_big(bytes, 20, 4));
}

}  // namespace codec

std::string encode_png(const Image& image) {
  const codec::SpngContext encoder = codec::make_context(SPNG_CTX_ENCODER);
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
