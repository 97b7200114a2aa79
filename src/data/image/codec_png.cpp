// Decodes PNG with libspng. Alpha is dropped, and 16-bit samples keep their high byte.
#include <memory>
#include <new>
#include <string>

#include <spng.h>

#include "data/image/codec.h"

namespace kiln::codec {
namespace {

constexpr std::size_t kMaxChunkBytes = std::size_t{64}
                                       << 20;  // for color profiles, texts and the like

constexpr std::uint64_t kMaxDeflateRatio = 1032;  // according to "zlib Technical Details"

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

void check(int status) {
  if (status == SPNG_OK) return;
  if (status == SPNG_EMEM) throw std::bad_alloc();
  if (status == SPNG_IO_EOF) throw ImageFault("PNG data ends early");
  throw ImageFault("broken PNG: " + std::string(spng_strerror(status)));
}

}  // namespace

void decode_png(std::string_view bytes, ImagePart& part) {
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(0));
  if (context == nullptr) throw std::bad_alloc();
  check(spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes));
  check(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  const ImageSize size = read_png_size(bytes);
  check(spng_decode_chunks(context.get()));  // verifies the header before memory is allocated
  // A pixel takes at least one bit before compression.
  const auto pixels_in_all =
      static_cast<std::uint64_t>(size.height) * static_cast<std::uint64_t>(size.width);
  require_bytes(bytes.size(), pixels_in_all / 8 / kMaxDeflateRatio, "PNG");
  const auto pixels = begin_whole(size, part);
  check(spng_decode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_RGB8, 0));
}

ImageSize read_png_size(std::string_view bytes) {
  if (bytes.size() < 24) fail_in_header("PNG");
  if (bytes.substr(12, 4) != "IHDR") throw ImageFault("broken PNG: it does not begin with IHDR");
  return checked_size(big32(bytes, 16), big32(bytes, 20));
}

}  // namespace kiln::codec
