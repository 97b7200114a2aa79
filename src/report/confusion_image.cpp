#include "report/confusion_image.h"

#include <spng.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "report/class_scores.h"

namespace kiln {
namespace {

constexpr int kSide = 480;  // at least, where a class has a pixel
constexpr std::array<double, 3> kLight = {247, 251, 255}, kDark = {8, 48, 107};

// RGB, [side, side, 3].
std::vector<std::uint8_t> draw(const ConfusionMatrix& matrix, int cell) {
  const int side = cell * matrix.num_classes;
  const std::vector<ClassScore> rows = scores_by_label(matrix);
  std::vector<std::uint8_t> pixels;
  pixels.reserve(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3);
  for (int y = 0; y < side; ++y) {
    const ClassScore& row = rows[static_cast<std::size_t>(y / cell)];
    const auto total = static_cast<double>(std::max<std::int64_t>(row.images, 1));
    for (int x = 0; x < side; ++x) {
      const double share = static_cast<double>(matrix.at(row.label, x / cell)) / total;
      for (std::size_t c = 0; c < 3; ++c)
        pixels.push_back(
            static_cast<std::uint8_t>(std::lround(kLight[c] + share * (kDark[c] - kLight[c]))));
    }
  }
  return pixels;
}

std::string encode(const std::vector<std::uint8_t>& pixels, int side) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> png(spng_ctx_new(SPNG_CTX_ENCODER),
                                                           spng_ctx_free);
  spng_ihdr header = {};
  header.width = header.height = static_cast<std::uint32_t>(side);
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_option(png.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_ihdr(png.get(), &header);
  int fault = spng_encode_image(png.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG,
                                SPNG_ENCODE_FINALIZE);
  std::size_t size = 0;
  void* buffer = fault == 0 ? spng_get_png_buffer(png.get(), &size, &fault) : nullptr;
  if (buffer == nullptr) throw std::runtime_error(spng_strerror(fault));
  const std::unique_ptr<void, void (*)(void*)> owner(buffer, std::free);
  return {static_cast<const char*>(buffer), size};
}

}  // namespace

Picture confusion_picture(const ConfusionMatrix& matrix) {
  const int cell = std::max(1, kSide / std::max(1, matrix.num_classes));
  const int side = cell * matrix.num_classes;
  return {side, encode(draw(matrix, cell), side)};
}

}  // namespace kiln
