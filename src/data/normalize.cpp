#include "data/normalize.h"

namespace kiln {
namespace {

constexpr std::size_t kPixels = 16;  // a run that ends where a vector register of any size does
constexpr std::size_t kValues = kPixels * 3;

struct Factors {
  std::array<float, kValues> mean, std;
};

[[gnu::always_inline]] inline void scale_runs(const std::uint8_t* rgb, std::size_t num_runs,
                                              const Factors& factors, float* out) {
  for (std::size_t run = 0; run < num_runs; ++run, rgb += kValues, out += kValues)
    for (std::size_t i = 0; i < kValues; ++i)
      out[i] = (static_cast<float>(rgb[i]) / 255.0F - factors.mean[i]) / factors.std[i];
}

// The same, for the compiler to vectorise with 8 numbers at once where the processor can. The
// bits are the same.
[[gnu::target("avx2")]] void scale_runs_avx2(const std::uint8_t* rgb, std::size_t num_runs,
                                             const Factors& factors, float* out) {
  scale_runs(rgb, num_runs, factors, out);
}

}  // namespace

void normalize_pixels(const std::uint8_t* rgb, std::size_t num_pixels, const Normalization& scaling,
                      float* out) {
  Factors factors;
  for (std::size_t i = 0; i < kValues; ++i) {
    factors.mean[i] = static_cast<float>(scaling.mean[i % 3]);
    factors.std[i] = static_cast<float>(scaling.std[i % 3]);
  }
  const std::size_t num_runs = num_pixels / kPixels;
  if (__builtin_cpu_supports("avx2"))
    scale_runs_avx2(rgb, num_runs, factors, out);
  else
    scale_runs(rgb, num_runs, factors, out);
  for (std::size_t i = num_runs * kValues; i < num_pixels * 3; ++i)
    out[i] = (static_cast<float>(rgb[i]) / 255.0F - factors.mean[i % 3]) / factors.std[i % 3];
}

}  // namespace kiln
