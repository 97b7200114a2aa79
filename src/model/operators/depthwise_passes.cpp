// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "model/operators/depthwise_passes.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/system.h"

namespace kiln {
namespace {

constexpr int kOutputsAtOnce = 8;                 // two units with a latency of four cycles
constexpr int kGradientsAtOnce = 4;               // in registers for all taps of a row
constexpr std::int64_t kBandNumbers = 32 * 1024;  // unpacked at a time; the second-level cache

template <int kLanes>
struct VectorOf {
  using Type [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias]] = float;
  using Bits [[gnu::vector_size(kLanes * sizeof(float))]] = std::uint32_t;
  using Halves [[gnu::vector_size(kLanes * sizeof(Bfloat16))]] = std::uint16_t;
};

struct alignas(64) Line {
  float numbers[16];
};

std::int64_t parts(std::int64_t all, std::int64_t size) {
  return (all + size - 1) / size;
}

// Some channels of one image.
template <typename Number>
struct Plane {
  Number* data;
  std::int64_t height, width, channels;  // `channels` from one pixel to the next
  std::int64_t used;

  Number* pixel(std::int64_t y, std::int64_t x) const { return data + (y * width + x) * channels; }
};

// What of a plane is unpacked; may begin and end outside of it.
struct Window {
  std::int64_t top, left, rows, columns;

  Window below(std::int64_t by) const { return {top + by, left, rows, columns}; }
};

// -> [rows, columns, lanes], zeros outside of the plane. With all lanes it reads ahead, since
// pixels are too far apart for the processor to.
template <int kLanes, typename Number>
[[gnu::always_inline]] inline void unpack(const Plane<const Number>& plane, const Window& window,
                                          float* to) {
  const std::int64_t first = std::clamp<std::int64_t>(-window.left, 0, window.columns);
  const std::int64_t end = std::clamp(plane.width - window.left, first, window.columns);
  const std::int64_t step = plane.channels, used = plane.used, columns = window.columns;
  for (std::int64_t y = window.top; y < window.top + window.rows; ++y, to += columns * kLanes) {
    const bool is_inside = y >= 0 && y < plane.height;
    std::fill(to, to + (is_inside ? first : columns) * kLanes, 0.0F);
    if (!is_inside) continue;
    const Number* from = plane.pixel(y, window.left + first);
    float* pixel = to + first * kLanes;
    for (; used == kLanes && pixel < to + end * kLanes; from += step, pixel += kLanes) {
      __builtin_prefetch(from + 16 * step);
      for (int lane = 0; lane < kLanes; ++lane) pixel[lane] = from[lane];
    }
    for (; pixel < to + end * kLanes; from += step, pixel += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) pixel[lane] = lane < used ? float{from[lane]} : 0;
    std::fill(pixel, to + columns * kLanes, 0.0F);
  }
}

// Stores the first `used` numbers; those of bfloat16 as store() rounds them.
template <int kLanes, typename Number>
[[gnu::always_inline]] inline void pack(const typename VectorOf<kLanes>::Type& numbers,
                                        std::int64_t used, Number* to) {
  Number packed[kLanes];
  if constexpr (sizeof(Number) == sizeof(float)) {
    std::memcpy(&packed, &numbers, sizeof packed);
  } else {
    typename VectorOf<kLanes>::Bits bits;
    std::memcpy(&bits, &numbers, sizeof bits);
    const auto rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const auto halves = __builtin_convertvector(numbers == numbers ? rounded : bits >> 16 | 1,
                                                typename VectorOf<kLanes>::Halves);
    std::memcpy(&packed, &halves, sizeof packed);
  }
  if (used == kLanes)
    std::memcpy(to, &packed, sizeof packed);
  else
    std::copy_n(packed, used, to);
}

// A row of taps meets a row of inputs, of which each is loaded once: sum over n and m of
// outputs[n], taps[m] and line[n * kStep + m]. kToTaps: taps += outputs * line, else outputs +=
// taps * line.
template <bool kToTaps, int kStep, typename Vector, int kTaps, int kOutputs>
[[gnu::always_inline]] inline void multiply(const float* line, Vector (&taps)[kTaps],
                                            Vector (&outputs)[kOutputs]) {
#pragma GCC unroll 32
  for (int at = 0; at < (kOutputs - 1) * kStep + kTaps; ++at) {
    const Vector number = reinterpret_cast<const Vector*>(line)[at];
#pragma GCC unroll 8
    for (int m = 0; m < kTaps; ++m) {
      if (at < m || (at - m) % kStep != 0 || (at - m) / kStep >= kOutputs) continue;
      if constexpr (kToTaps)
        taps[m] += outputs[(at - m) / kStep] * number;
      else
        outputs[(at - m) / kStep] += taps[m] * number;
    }
  }
}

// What a pass computes, cut into blocks of channels and bands of rows.
struct Job {
  const DepthwiseShape& shape;
  const void* in;     // dy, or x
  const void* other;  // taps, or dy
  void* out;          // dx, or sums
  std::int64_t blocks = 0, bands = 0, band = 0;
  Window window = {};  // of the first band

  // `rows` times `columns` positions that are `step` apart in what is unpacked, and each read from
  // `begin` to `end` of it.
  void cut(int lanes, std::int64_t rows, std::int64_t columns, int step, int begin, int end) {
    const std::int64_t width = (columns - 1) * step + end - begin;
    const std::int64_t fit = std::max<std::int64_t>(1, kBandNumbers / (width * step * lanes));
    blocks = parts(shape.channels, lanes);
    band = parts(rows, parts(rows, fit));  // of nearly equal heights
    bands = parts(rows, band);
    window = {begin, begin, (band - 1) * step + end - begin, width};
  }
  std::int64_t unpacked_pixels() const { return window.rows * window.columns; }

  template <typename Number, typename Pointer>
  Plane<Number> plane(Pointer maps, bool is_input, std::int64_t image, std::int64_t first,
                      std::int64_t lanes) const {
    const std::int64_t height = is_input ? shape.height : shape.out_height();
    const std::int64_t width = is_input ? shape.width : shape.out_width();
    return {static_cast<Number*>(maps) + image * height * width * shape.channels + first, height,
            width, shape.channels, std::min(lanes, shape.channels - first)};
  }
};

// With a stride of 2, an output has used every other tap for an even input and the rest for an odd
// one: dx[q * kStride + parity] is the sum over m of dy[q + offset + m] * tap[last - m * kStride].
struct Parity {
  int taps, last, offset;
};

template <int kKernel, int kStride, typename Number>
struct InputGradient : Job {
  static constexpr Parity of(std::int64_t position) {
    const int odd = static_cast<int>(position % kStride), reach = odd + kKernel / 2;
    const int last = kKernel - 1 - (kKernel - 1 + reach) % kStride;
    return {last / kStride + 1, last, (reach - last) / kStride};
  }
  // What q = 0 reads.
  static constexpr int kBegin = std::min(of(0).offset, of(1).offset);
  static constexpr int kEnd = std::max(of(0).offset + of(0).taps, of(1).offset + of(1).taps);

  std::int64_t prepare(int lanes) {
    cut(lanes, parts(shape.height, kStride),
        parts(shape.width, kStride * kOutputsAtOnce) * kOutputsAtOnce, /*step=*/1, kBegin, kEnd);
    return shape.images * bands * blocks;
  }
  std::int64_t scratch() const { return unpacked_pixels(); }

  template <int kLanes>
  [[gnu::always_inline]] void run(std::int64_t task, float* unpacked) const {
    const std::int64_t first = task % blocks * kLanes, begin = task / blocks % bands * band;
    const std::int64_t image = task / blocks / bands;
    const auto dx = plane<Number>(out, true, image, first, kLanes);
    unpack<kLanes>(plane<const Number>(in, false, image, first, kLanes), window.below(begin),
                   unpacked);
    for (std::int64_t y = begin * kStride; y < std::min((begin + band) * kStride, dx.height); ++y) {
      const float* const from =
          unpacked + (y / kStride - begin + of(y).offset - kBegin) * window.columns * kLanes;
      row<kLanes, 0>(dx, y, first, from);
      if constexpr (kStride == 2) row<kLanes, 1>(dx, y, first, from);
    }
  }

 private:
  // The even or the odd columns of row y, which reads the rows from `rows` on.
  template <int kLanes, int kOdd>
  [[gnu::always_inline]] void row(const Plane<Number>& dx, std::int64_t y, std::int64_t first,
                                  const float* rows) const {
    using Vector = typename VectorOf<kLanes>::Type;
    constexpr Parity kColumn = of(kOdd);
    const std::int64_t columns = window.columns, step = shape.padded_channels();
    for (std::int64_t x = kOdd; x < dx.width; x += kOutputsAtOnce * kStride) {
      Vector sums[kOutputsAtOnce] = {}, taps[kColumn.taps];
      const float* from = rows + (x / kStride + kColumn.offset - kBegin) * kLanes;
      for (int i = of(y).last; i >= 0; i -= kStride, from += columns * kLanes) {
        const float* const tap = static_cast<const float*>(other) + i * kKernel * step + first;
#pragma GCC unroll 8
        for (int m = 0; m < kColumn.taps; ++m)
          std::memcpy(&taps[m], tap + (kColumn.last - m * kStride) * step, sizeof taps[m]);
        multiply<false, 1>(from, taps, sums);
      }
#pragma GCC unroll 8
      for (int n = 0; n < kOutputsAtOnce; ++n)
        if (x + n * kStride < dx.width)
          pack<kLanes>(sums[n], dx.used, dx.pixel(y, x + n * kStride));
    }
  }
};

template <int kKernel, int kStride, typename Number>
struct WeightGradient : Job {
  std::int64_t prepare(int lanes) {
    cut(lanes, shape.out_height(), shape.out_width(), kStride, -kKernel / 2, kKernel - kKernel / 2);
    return shape.partial_sums() * blocks;
  }
  std::int64_t scratch() const { return unpacked_pixels() + band * shape.out_width(); }

  template <int kLanes>
  [[gnu::always_inline]] void run(std::int64_t task, float* unpacked) const {
    const std::int64_t first = task % blocks * kLanes, chunk = task / blocks;
    const std::int64_t images = shape.images, chunks = shape.partial_sums();
    const std::int64_t step = shape.padded_channels();
    float* const gradients = unpacked + unpacked_pixels() * kLanes;
    float* const sums = static_cast<float*>(out) + chunk * kKernel * kKernel * step + first;
    for (int tap = 0; tap < kKernel * kKernel; ++tap) std::fill_n(sums + tap * step, kLanes, 0.0F);
    for (std::int64_t image = chunk * images / chunks; image < (chunk + 1) * images / chunks;
         ++image) {
      const auto x = plane<const Number>(in, true, image, first, kLanes);
      const auto dy = plane<const Number>(other, false, image, first, kLanes);
      for (std::int64_t y = 0; y < dy.height; y += band) {
        const Window own{y, 0, std::min(band, dy.height - y), dy.width};
        unpack<kLanes>(x, window.below(y * kStride), unpacked);
        unpack<kLanes>(dy, own, gradients);
        add<kLanes, 0>(unpacked, gradients, own, sums);
      }
    }
  }

 private:
  // To the kernel's rows from kFirst on, of which half of the registers hold kRows.
  template <int kLanes, int kFirst>
  [[gnu::always_inline]] void add(const float* unpacked, const float* gradients, const Window& own,
                                  float* sums) const {
    using Vector = typename VectorOf<kLanes>::Type;
    constexpr int kRows = std::min(kLanes / kKernel, kKernel - kFirst);
    const std::int64_t columns = window.columns, step = shape.padded_channels();
    Vector total[kRows][kKernel] = {};
    for (std::int64_t y = 0; y < own.rows; ++y) {
      const float* from = unpacked + (y * kStride + kFirst) * columns * kLanes;
      const float* gradient = gradients + y * own.columns * kLanes;
      const auto take = [&]<int kCount>() __attribute__((always_inline)) {
        Vector taken[kCount];
        std::memcpy(&taken, gradient, sizeof taken);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i)
          multiply<true, kStride>(from + i * columns * kLanes, total[i], taken);
        from += kCount * kStride * kLanes;
        gradient += kCount * kLanes;
      };
      std::int64_t left = own.columns;
      for (; left >= kGradientsAtOnce; left -= kGradientsAtOnce)
        take.template operator()<kGradientsAtOnce>();
      for (; left > 0; --left) take.template operator()<1>();
    }
#pragma GCC unroll 32
    for (int tap = 0; tap < kRows * kKernel; ++tap)
      *reinterpret_cast<Vector*>(sums + (kFirst * kKernel + tap) * step) +=
          total[tap / kKernel][tap % kKernel];
    if constexpr (kFirst + kRows < kKernel)
      add<kLanes, kFirst + kRows>(unpacked, gradients, own, sums);
  }
};

template <typename AnyJob>
[[gnu::target("avx512f")]] void run_avx512(const AnyJob& job, std::int64_t task, float* unpacked) {
  job.template run<16>(task, unpacked);
}

template <typename AnyJob>
[[gnu::target("avx2,fma")]] void run_avx2(const AnyJob& job, std::int64_t task, float* unpacked) {
  job.template run<8>(task, unpacked);
}

template <typename AnyJob>
void run_tasks(AnyJob job, int lanes) {
  const std::int64_t tasks = job.prepare(lanes), lines = parts(job.scratch() * lanes, 16);
  const auto run = lanes == 16 ? run_avx512<AnyJob> : run_avx2<AnyJob>;
  const std::unique_ptr<Line[]> scratch(
      new Line[static_cast<std::size_t>(lines * omp_get_max_threads())]);
#pragma omp parallel for schedule(static)
  for (std::int64_t task = 0; task < tasks; ++task)
    run(job, task, scratch[static_cast<std::size_t>(lines * omp_get_thread_num())].numbers);
}

template <template <int, int, typename> typename AnyJob, int kKernel>
void run_kernel(const Job& job, int lanes) {
  const bool is_near = job.shape.stride == 1;
  if (job.shape.type == MapType::kFloat32)
    is_near ? run_tasks(AnyJob<kKernel, 1, float>{job}, lanes)
            : run_tasks(AnyJob<kKernel, 2, float>{job}, lanes);
  else
    is_near ? run_tasks(AnyJob<kKernel, 1, Bfloat16>{job}, lanes)
            : run_tasks(AnyJob<kKernel, 2, Bfloat16>{job}, lanes);
}

template <template <int, int, typename> typename AnyJob>
void run_job(const Job& job, int lanes) {
  if (job.shape.kernel == 3) run_kernel<AnyJob, 3>(job, lanes);
  if (job.shape.kernel == 5) run_kernel<AnyJob, 5>(job, lanes);
  if (job.shape.kernel == 7) run_kernel<AnyJob, 7>(job, lanes);
}

}  // namespace

int depthwise_lanes() {
  if (cpu_has("avx512f")) return 16;
  return cpu_has("avx2") && cpu_has("fma") ? 8 : 0;
}

void depthwise_input_gradient(const DepthwiseShape& shape, int lanes, const void* dy,
                              const float* taps, void* dx) {
  run_job<InputGradient>({shape, dy, taps, dx}, lanes);
}

void depthwise_weight_gradient(const DepthwiseShape& shape, int lanes, const void* x,
                               const void* dy, float* sums) {
  run_job<WeightGradient>({shape, x, dy, sums}, lanes);
  const std::int64_t numbers = shape.kernel * shape.kernel * shape.padded_channels();
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < numbers; ++i)
    for (std::int64_t part = 1; part < shape.partial_sums(); ++part)
      sums[i] += sums[part * numbers + i];
}

}  // namespace kiln
