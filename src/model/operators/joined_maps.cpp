// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "model/operators/joined_maps.h"

#include <algorithm>

#include "base/system.h"

namespace kiln {
namespace {

constexpr std::int64_t kTile = 16;  // output pixels that are computed map by map

struct Pass {
  std::span<const Maps> maps;
  MapShape shape;
  const float* scale;
  const float* shift;
  void* out;
  std::int64_t channels, num_pixels;  // of the output
};

template <int kSide, typename Number>
[[gnu::always_inline]] inline void compute_run(const Number* x, std::int64_t row,
                                               std::int64_t channels, const float* scale,
                                               const float* shift, Number* __restrict out) {
  const auto rectified = [=](std::int64_t at, std::int64_t c) __attribute__((always_inline)) {
    const float number = x[at + c] * scale[c] + shift[c];
    return number < 0 ? 0 : number;
  };
  for (std::int64_t c = 0; c < channels; ++c) {
    if constexpr (kSide == 1) {
      store(rectified(0, c), out[c]);
    } else {
      store((rectified(0, c) + rectified(channels, c) + rectified(row, c) +
             rectified(row + channels, c)) *
                0.25F,
            out[c]);
    }
  }
}

template <int kSide, typename Number>
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
      compute_run<kSide>(static_cast<const Number*>(maps.data) + source * maps.channels,
                         pass.shape.width * maps.channels, maps.channels, pass.scale + channel,
                         pass.shift + channel,
                         static_cast<Number*>(pass.out) + pixel * pass.channels + channel);
    }
    channel += maps.channels;
  }
}

template <int kSide, typename Number>
void tile(const Pass& pass, std::int64_t first) {
  compute_tile<kSide, Number>(pass, first);
}

// The same for processors with AVX2. The result is bit-identical.
template <int kSide, typename Number>
[[gnu::target("avx2")]] void tile_avx2(const Pass& pass, std::int64_t first) {
  compute_tile<kSide, Number>(pass, first);
}

template <int kSide, typename Number>
void run(const Pass& pass) {
  const auto compute = cpu_has("avx2") ? tile_avx2<kSide, Number> : tile<kSide, Number>;
#pragma omp parallel for schedule(static)
  for (std::int64_t first = 0; first < pass.num_pixels; first += kTile) compute(pass, first);
}

}  // namespace

void joined_relu(std::span<const Maps> maps, const MapShape& shape, const float* scale,
                 const float* shift, int side, void* out) {
  std::int64_t channels = 0;
  for (const Maps& one : maps) channels += one.channels;
  const std::int64_t num_pixels = shape.images * (shape.height / side) * (shape.width / side);
  const Pass pass{maps, shape, scale, shift, out, channels, num_pixels};
  if (shape.type == MapType::kFloat32)
    side == 2 ? run<2, float>(pass) : run<1, float>(pass);
  else
    side == 2 ? run<2, Bfloat16>(pass) : run<1, Bfloat16>(pass);
}

}  // namespace kiln
