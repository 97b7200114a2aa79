// Decodes BMP with stb_image, which is compiled here for that format only.
#include <cstring>
#include <memory>
#include <new>
#include <string>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include "data/image/codec.h"

namespace kiln::codec {
namespace {

constexpr std::uint32_t kOldHeader = 12;  // bytes; OS/2's header, with 16-bit sides

struct FreePixels {
  void operator()(stbi_uc* pixels) const { stbi_image_free(pixels); }
};

// stb_image reads zeros after the end, so a truncated file would decode as black.
void check_length(std::string_view bytes, ImageSize size) {
  const bool old = little32(bytes, 14) == kOldHeader;
  if (bytes.size() < 34) throw ImageFault("BMP data ends early");
  const std::uint64_t bits = little16(bytes, old ? 24 : 28);
  const std::uint64_t stride = (bits * static_cast<std::uint64_t>(size.width) + 31) / 32 * 4;
  const std::uint64_t padding = stride - (bits * static_cast<std::uint64_t>(size.width) + 7) / 8;
  const std::uint32_t compression = old ? 0 : little32(bytes, 30);
  if (compression == 1 || compression == 2) throw ImageFault("run-length BMP is not supported");
  const std::uint64_t rows = stride * static_cast<std::uint64_t>(size.height) - padding;
  if (little32(bytes, 10) + rows > bytes.size()) throw ImageFault("BMP data ends early");
}

}  // namespace

void decode_bmp(std::string_view bytes, ImagePart& part) {
  const ImageSize size = read_bmp_size(bytes);
  check_length(bytes, size);
  if (bytes.size() > 0x7fffffff) throw ImageFault("a BMP file larger than 2 GiB is not supported");
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<stbi_uc, FreePixels> pixels(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()),
                            static_cast<int>(bytes.size()), &width, &height, &channels, 3));
  if (pixels == nullptr) {
    const std::string reason = stbi_failure_reason();
    if (reason == "outofmem") throw std::bad_alloc();
    throw ImageFault("broken BMP: " + reason);
  }
  if (ImageSize{height, width} != size) throw ImageFault("broken BMP: inconsistent size");
  const auto target = begin_whole(size, part);
  std::memcpy(target.data(), pixels.get(), target.size());
}

ImageSize read_bmp_size(std::string_view bytes) {
  if (bytes.size() < 26) fail_in_header("BMP");
  if (little32(bytes, 14) == kOldHeader) {
    return checked_size(little16(bytes, 18), little16(bytes, 20));
  }
  const auto height = static_cast<std::int32_t>(little32(bytes, 22));  // negative: top row first
  return checked_size(little32(bytes, 18),
                      static_cast<std::uint64_t>(height < 0 ? -std::int64_t{height} : height));
}

}  // namespace kiln::codec
