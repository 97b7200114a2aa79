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

// Outputs that are `kPhases` apart meet the same taps: out[q * kPhases + phase] is the sum over m
// of in[q * kStep + offset + m] * tap[first + m * step]. For the output of a convolution there is
// one phase. For the gradient of its input there are as many as its stride: with 2, an output has
// used every other tap for an even input, and the rest for an odd one.
struct Phase {
  int taps, first, step, offset;
};

template <bool kIsGradient, int kKernel, int kStride>
struct Scheme {
  static constexpr int kPhases = kIsGradient ? kStride : 1;
  static constexpr int kStep = kIsGradient ? 1 : kStride;

  static constexpr Phase phase(std::int64_t index) {
    constexpr int kPadding = kKernel / 2;
    if (!kIsGradient) return {kKernel, 0, 1, -kPadding};
    const int odd = static_cast<int>(index % kPhases);
    const int last = kKernel - 1 - (kKernel - 1 - odd - kPadding) % kStride;
    return {last / kStride + 1, last, -kStride, (odd + kPadding - last) / kStride};
  }
  // What q = 0 reads, over all phases.
  static constexpr int kBegin = std::min(phase(0).offset, phase(1).offset);
  static constexpr int kEnd =
      std::max(phase(0).offset + phase(0).taps, phase(1).offset + phase(1).taps);
};

// What a pass computes, cut into blocks of channels and bands of rows.
struct Job {
  const DepthwiseShape& shape;
  const void* in;
  const void* other;
  void* out;
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

  template <typename Any, typename Pointer>
  Plane<Any> plane(Pointer maps, bool is_of_output, std::int64_t image, std::int64_t first,
                   std::int64_t lanes) const {
    const std::int64_t height = is_of_output ? shape.out_height() : shape.height;
    const std::int64_t width = is_of_output ? shape.out_width() : shape.width;
    return {static_cast<Any*>(maps) + image * height * width * shape.channels + first, height,
            width, shape.channels, std::min(lanes, shape.channels - first)};
  }
};

template <bool kIsGradient, int kKernel, int kStride, typename Number>
struct Correlation : Job {
  using Pass = Scheme<kIsGradient, kKernel, kStride>;

  std::int64_t prepare(int lanes) {
    const std::int64_t height = kIsGradient ? shape.height : shape.out_height();
    const std::int64_t width = kIsGradient ? shape.width : shape.out_width();
    cut(lanes, parts(height, Pass::kPhases),
        parts(width, Pass::kPhases * kOutputsAtOnce) * kOutputsAtOnce, Pass::kStep, Pass::kBegin,
        Pass::kEnd);
    return shape.images * bands * blocks;
  }
  std::int64_t scratch() const { return unpacked_pixels(); }

  template <int kLanes>
  [[gnu::always_inline]] void run(std::int64_t task, float* unpacked) const {
    const std::int64_t first = task % blocks * kLanes, columns = window.columns;
    const std::int64_t image = task / blocks / bands;
    const std::int64_t begin = task / blocks % bands * band;
    const auto to = plane<Number>(out, !kIsGradient, image, first, kLanes);
    unpack<kLanes>(plane<const Number>(in, kIsGradient, image, first, kLanes),
                   window.below(begin * Pass::kStep), unpacked);
    const std::int64_t end = std::min((begin + band) * Pass::kPhases, to.height);
    for (std::int64_t y = begin * Pass::kPhases; y < end; ++y) {
      const std::int64_t top = (y / Pass::kPhases - begin) * Pass::kStep - Pass::kBegin;
      row<kLanes, 0>(to, y, first, unpacked + top * columns * kLanes);
      if constexpr (Pass::kPhases == 2)
        row<kLanes, 1>(to, y, first, unpacked + top * columns * kLanes);
    }
  }

 private:
  // The outputs of a column phase in row y. `unpacked`: offset 0 of the row.
  template <int kLanes, int kPhase>
  [[gnu::always_inline]] void row(const Plane<Number>& to, std::int64_t y, std::int64_t first,
                                  const float* unpacked) const {
    using Vector = typename VectorOf<kLanes>::Type;
    constexpr Phase kColumns = Pass::phase(kPhase);
    const Phase rows = Pass::phase(y);
    const std::int64_t columns = window.columns, step = shape.padded_channels();
    const float* const all_taps = static_cast<const float*>(other) + first;
    for (std::int64_t x = kPhase; x < to.width; x += kOutputsAtOnce * Pass::kPhases) {
      Vector sums[kOutputsAtOnce], taps[kColumns.taps];
      for (Vector& sum : sums) std::memcpy(&sum, all_taps + kKernel * kKernel * step, sizeof sum);
      const float* from = unpacked + (rows.offset * columns + kColumns.offset - Pass::kBegin +
                                      x / Pass::kPhases * Pass::kStep) *
                                         kLanes;
      for (int i = 0; i < rows.taps; ++i, from += columns * kLanes) {
        const std::int64_t tap = (rows.first + i * rows.step) * kKernel + kColumns.first;
#pragma GCC unroll 8
        for (int m = 0; m < kColumns.taps; ++m)
          std::memcpy(&taps[m], all_taps + (tap + m * kColumns.step) * step, sizeof taps[m]);
        multiply<false, Pass::kStep>(from, taps, sums);
      }
#pragma GCC unroll 8
      for (int n = 0; n < kOutputsAtOnce; ++n)
        if (x + n * Pass::kPhases < to.width)
          pack<kLanes>(sums[n], to.used, to.pixel(y, x + n * Pass::kPhases));
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
      const auto x = plane<const Number>(in, false, image, first, kLanes);
      const auto dy = plane<const Number>(other, true, image, first, kLanes);
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

using Run = void(DepthwisePass pass, const DepthwiseShape& shape, int lanes, const void* in,
                 const void* other, void* out);

template <int kKernel, int kStride, typename Number>
void run(DepthwisePass pass, const DepthwiseShape& shape, int lanes, const void* in,
         const void* other, void* out) {
  const Job job{shape, in, other, out};
  if (pass == DepthwisePass::kOutput)
    run_tasks(Correlation<false, kKernel, kStride, Number>{job}, lanes);
  else if (pass == DepthwisePass::kInputGradient)
    run_tasks(Correlation<true, kKernel, kStride, Number>{job}, lanes);
  else
    run_tasks(WeightGradient<kKernel, kStride, Number>{job}, lanes);
}

template <int kKernel>
Run* run_of(const DepthwiseShape& shape) {
  if (shape.type == MapType::kFloat32)
    return shape.stride == 1 ? run<kKernel, 1, float> : run<kKernel, 2, float>;
  return shape.stride == 1 ? run<kKernel, 1, Bfloat16> : run<kKernel, 2, Bfloat16>;
}

}  // namespace

int depthwise_lanes() {
  if (cpu_has("avx512f")) return 16;
  return cpu_has("avx2") && cpu_has("fma") ? 8 : 0;
}

void run_depthwise(DepthwisePass pass, const DepthwiseShape& shape, int lanes, const void* in,
                   const void* other, void* out) {
  Run* const run = shape.kernel == 3   ? run_of<3>(shape)
                   : shape.kernel == 5 ? run_of<5>(shape)
                                       : run_of<7>(shape);
  run(pass, shape, lanes, in, other, out);
  if (pass != DepthwisePass::kWeightGradient) return;
  const std::int64_t numbers = shape.kernel * shape.kernel * shape.padded_channels();
  auto* const sums = static_cast<float*>(out);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < numbers; ++i)
    for (std::int64_t part = 1; part < shape.partial_sums(); ++part)
      sums[i] += sums[part * numbers + i];
}

}  // namespace kiln
