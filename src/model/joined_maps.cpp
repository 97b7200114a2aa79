// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "model/joined_maps.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr std::int64_t kTile = 16;  // output pixels that are computed map by map

struct Pass {
  std::span<const Maps> maps;
  MapShape shape;
  const float* scale;
  const float* shift;
  float* out;
  std::int64_t channels, num_pixels;  // of the output
};

template <int kSide>
[[gnu::always_inline]] inline void compute_run(const float* x, std::int64_t row,
                                               std::int64_t channels, const float* scale,
                                               const float* shift, float* __restrict out) {
  const auto rectified = [=](std::int64_t at, std::int64_t c) __attribute__((always_inline)) {
    const float number = x[at + c] * scale[c] + shift[c];
    return number < 0 ? 0 : number;
  };
  for (std::int64_t c = 0; c < channels; ++c) {
    if constexpr (kSide == 1) {
      out[c] = rectified(0, c);
    } else {
      out[c] = (rectified(0, c) + rectified(channels, c) + rectified(row, c) +
                rectified(row + channels, c)) *
               0.25F;
    }
  }
}

template <int kSide>
[[gnu::always_inline]] inline void compute_tile(const Pass& pass, std::int64_t first) {
  const std::int64_t height = pass.shape.height / kSide, width = pass.shape.width / kSide;
  const std::int64_t end = std::min(first + kTile, pass.num_pixels);
  std::int64_t channel = 0;
  for (const Maps& maps : pass.maps) {
    for (std::int64_t pixel = first; pixel < end; ++pixel) {
      std::int64_t source = pixel;
      if constexpr (kSide == 2) {
        const std::int64_t line = pixel / width, image = line / height;
        source =
            (image * pass.shape.height + line % height * 2) * pass.shape.width + pixel % width * 2;
      }
      compute_run<kSide>(maps.data + source * maps.channels, pass.shape.width * maps.channels,
                         maps.channels, pass.scale + channel, pass.shift + channel,
                         pass.out + pixel * pass.channels + channel);
    }
    channel += maps.channels;
  }
}

template <int kSide>
void tile(const Pass& pass, std::int64_t first) {
  compute_tile<kSide>(pass, first);
}

// The same for processors with AVX2. The result is bit-identical.
template <int kSide>
[[gnu::target("avx2")]] void tile_avx2(const Pass& pass, std::int64_t first) {
  compute_tile<kSide>(pass, first);
}

template <int kSide>
void run(const Pass& pass) {
  const auto compute = __builtin_cpu_supports("avx2") ? tile_avx2<kSide> : tile<kSide>;
#pragma omp parallel for schedule(static)
  for (std::int64_t first = 0; first < pass.num_pixels; first += kTile) compute(pass, first);
}

}  // namespace

void joined_relu(std::span<const Maps> maps, const MapShape& shape, const float* scale,
                 const float* shift, int side, float* out) {
  std::int64_t channels = 0;
  for (const Maps& one : maps) channels += one.channels;
  const std::int64_t num_pixels = shape.images * (shape.height / side) * (shape.width / side);
  const Pass pass{maps, shape, scale, shift, out, channels, num_pixels};
  side == 2 ? run<2>(pass) : run<1>(pass);
}

}  // namespace kiln
