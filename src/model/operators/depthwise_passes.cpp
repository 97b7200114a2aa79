// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "model/operators/depthwise_passes.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/system.h"

namespace kiln {
namespace {

constexpr int kOutputsAtOnce = 8;                 // two units with a latency of four cycles
constexpr int kGradientsAtOnce = 4;               // in registers for all taps of a row
constexpr std::int64_t kBandNumbers = 32 * 1024;  // unpacked at a time; the second-level cache
constexpr std::int64_t kMostPartialSums = 16;     // of the weights' gradient over the images

template <int kLanes>
struct VectorOf {
  using Type [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias]] = float;
  using Bits [[gnu::vector_size(kLanes * sizeof(float))]] = std::uint32_t;
  using Halves [[gnu::vector_size(kLanes * sizeof(Bfloat16))]] = std::uint16_t;
};

int lanes_of(Vectors vectors) {
  return vectors == Vectors::kAvx512 ? 16 : 8;
}

std::int64_t parts(std::int64_t all, std::int64_t size) {
  return (all + size - 1) / size;
}

// Memory for each thread. Not initialized.
class Scratch {
 public:
  Scratch(int threads, std::int64_t numbers)
      : lines_(parts(numbers, kLine)),
        data_(new Line[static_cast<std::size_t>(threads * lines_)]) {}
  float* of(int thread) { return data_[static_cast<std::size_t>(thread * lines_)].numbers; }

 private:
  static constexpr int kLine = 16;
  struct alignas(64) Line {
    float numbers[kLine];
  };
  std::int64_t lines_;
  std::unique_ptr<Line[]> data_;
};

// Maps, or some channels of one of them.
template <typename Number>
struct Maps {
  Number* data;
  std::int64_t channels, height, width;
  std::int64_t used = channels;

  Maps plane(std::int64_t image, std::int64_t first, std::int64_t most) const {
    return {pixel(image * height, 0) + first, channels, height, width,
            std::min(most, channels - first)};
  }
  Number* pixel(std::int64_t y, std::int64_t x) const { return data + (y * width + x) * channels; }
};

// What of a plane is unpacked; may begin and end outside of it.
struct Window {
  std::int64_t top, left, rows, columns;
};

// `count` pixels. With all lanes it reads ahead, for they are too far apart for the processor to.
template <int kLanes, typename Number>
[[gnu::always_inline]] inline void unpack_pixels(const Maps<const Number>& plane,
                                                 const Number* from, std::int64_t count,
                                                 float* to) {
  constexpr int kAhead = 16;
  const std::int64_t step = plane.channels, used = plane.used;
  if (used == kLanes) {
    for (; count > 0; --count, from += step, to += kLanes) {
      __builtin_prefetch(from + kAhead * step);
      for (int lane = 0; lane < kLanes; ++lane) to[lane] = from[lane];
    }
  }
  for (; count > 0; --count, from += step, to += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) to[lane] = lane < used ? float{from[lane]} : 0;
}

// -> [rows, columns, lanes], zeros outside of the plane.
template <int kLanes, typename Number>
[[gnu::always_inline]] inline void unpack(const Maps<const Number>& plane, const Window& window,
                                          float* out) {
  const std::int64_t first = std::clamp<std::int64_t>(-window.left, 0, window.columns);
  const std::int64_t end = std::clamp(plane.width - window.left, first, window.columns);
  for (std::int64_t row = 0; row < window.rows; ++row) {
    float* const line = out + row * window.columns * kLanes;
    const std::int64_t y = window.top + row;
    const bool is_inside = y >= 0 && y < plane.height;
    std::fill(line, line + (is_inside ? first : window.columns) * kLanes, 0.0F);
    if (!is_inside) continue;
    unpack_pixels<kLanes>(plane, plane.pixel(y, window.left + first), end - first,
                          line + first * kLanes);
    std::fill(line + end * kLanes, line + window.columns * kLanes, 0.0F);
  }
}

template <int kLanes, typename Number>
[[gnu::always_inline]] inline void store_vector(const typename VectorOf<kLanes>::Type& numbers,
                                                Number* to) {
  if constexpr (std::is_same_v<Number, float>) {
    std::memcpy(to, &numbers, sizeof numbers);
  } else {  // as store() does
    typename VectorOf<kLanes>::Bits bits;
    std::memcpy(&bits, &numbers, sizeof bits);
    const auto rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const auto halves = __builtin_convertvector(numbers == numbers ? rounded : bits >> 16 | 1,
                                                typename VectorOf<kLanes>::Halves);
    std::memcpy(to, &halves, sizeof halves);
  }
}

// Outputs that are `kPhases` apart meet the same taps: out[q * kPhases + phase] is the sum over m
// of in[q * kStep + offset + m] * weight[first + m * step]. For the output of a convolution there
// is one phase. For the gradient of its input there are as many as its stride: with 2, an output
// has used every other tap for an even input, and the rest for an odd one.
struct Phase {
  int taps, first, step, offset;
};

template <bool kIsGradient, int kSide, int kStride>
struct Scheme {
  static constexpr int kKernel = kSide;
  static constexpr int kPhases = kIsGradient ? kStride : 1;
  static constexpr int kStep = kIsGradient ? 1 : kStride;

  static constexpr Phase phase(int index) {
    constexpr int kPadding = kKernel / 2;
    if (!kIsGradient) return {kKernel, 0, 1, -kPadding};
    const int last = kKernel - 1 - (kKernel - 1 - index - kPadding) % kStride;
    return {last / kStride + 1, last, -kStride, (index + kPadding - last) / kStride};
  }
  static constexpr int taps_before(int index) { return index == 0 ? 0 : phase(0).taps; }
  // What q = 0 reads, over all phases.
  static constexpr int kBegin = std::min(phase(0).offset, phase(kPhases - 1).offset);
  static constexpr int kEnd = std::max(phase(0).offset + phase(0).taps,
                                       phase(kPhases - 1).offset + phase(kPhases - 1).taps);
};

template <typename Number>
struct Correlation {
  Maps<const Number> in;
  Maps<Number> out;
  std::int64_t images;
  const float* weight;
  const float* bias;                             // or null
  std::int64_t blocks = 0, bands = 0, band = 0;  // of channels; of rows q, and how many it has
  Window window = {};                            // of the first band
};

// One block's taps in the order of their use, each for all lanes, then the bias.
template <typename Pass, typename Number>
void pack(const Correlation<Number>& all, std::int64_t block, int lanes, float* out) {
  const std::int64_t first = block * lanes, end = std::min(first + lanes, all.out.channels);
  const auto put = [&](const float* from, std::int64_t step) {
    for (std::int64_t channel = first; channel < first + lanes; ++channel)
      *out++ = from != nullptr && channel < end ? from[channel * step] : 0;
  };
  for (int i = 0; i < Pass::kPhases; ++i)
    for (int j = 0; j < Pass::kPhases; ++j) {
      const Phase rows = Pass::phase(i), columns = Pass::phase(j);
      for (int row = 0; row < rows.taps; ++row)
        for (int column = 0; column < columns.taps; ++column)
          put(all.weight + (rows.first + row * rows.step) * Pass::kKernel + columns.first +
                  column * columns.step,
              Pass::kKernel * Pass::kKernel);
    }
  put(all.bias, 1);
}

// sums[n] += the sum over `rows` rows of taps of in[n * kStep + m] * taps[m]. Each input is loaded
// once for all taps of a row.
template <int kLanes, int kTaps, int kStep>
[[gnu::always_inline]] inline void add_products(
    const float* in, std::int64_t columns, const float* taps, int rows,
    typename VectorOf<kLanes>::Type (&sums)[kOutputsAtOnce]) {
  using Vector = typename VectorOf<kLanes>::Type;
  for (int row = 0; row < rows; ++row) {
    const auto* const line = reinterpret_cast<const Vector*>(in + row * columns * kLanes);
    Vector weights[kTaps];
    std::memcpy(&weights, taps + row * kTaps * kLanes, sizeof weights);
#pragma GCC unroll 32
    for (int at = 0; at < (kOutputsAtOnce - 1) * kStep + kTaps; ++at) {
      const Vector number = line[at];
#pragma GCC unroll 8
      for (int m = 0; m < kTaps; ++m)
        if (at >= m && (at - m) % kStep == 0 && (at - m) / kStep < kOutputsAtOnce)
          sums[(at - m) / kStep] += weights[m] * number;
    }
  }
}

// The outputs of a column phase and the next in row y, whose row phase has `rows` rows of taps.
template <typename Pass, int kLanes, int kPhase, typename Number>
[[gnu::always_inline]] inline void correlate_row(const Maps<Number>& out, std::int64_t y,
                                                 const float* in, std::int64_t columns,
                                                 const float* taps, int rows, const float* bias) {
  using Vector = typename VectorOf<kLanes>::Type;
  constexpr Phase kColumns = Pass::phase(kPhase);
  const float* const from = in + (kColumns.offset - Pass::kBegin) * kLanes;
  const float* const phase_taps = taps + rows * Pass::taps_before(kPhase) * kLanes;
  for (std::int64_t x = kPhase; x < out.width; x += kOutputsAtOnce * Pass::kPhases) {
    Vector sums[kOutputsAtOnce];
    for (Vector& sum : sums) sum = *reinterpret_cast<const Vector*>(bias);
    add_products<kLanes, kColumns.taps, Pass::kStep>(
        from + x / Pass::kPhases * Pass::kStep * kLanes, columns, phase_taps, rows, sums);
#pragma GCC unroll 8
    for (int n = 0; n < kOutputsAtOnce; ++n) {
      const std::int64_t column = x + n * Pass::kPhases;
      if (column >= out.width) continue;
      Number* const to = out.pixel(y, column);
      if (out.used == kLanes) {
        store_vector<kLanes>(sums[n], to);
      } else {
        for (int lane = 0; lane < out.used; ++lane) store(sums[n][lane], to[lane]);
      }
    }
  }
  if constexpr (kPhase + 1 < Pass::kPhases)
    correlate_row<Pass, kLanes, kPhase + 1>(out, y, in, columns, taps, rows, bias);
}

template <typename Pass, int kLanes, typename Number>
[[gnu::always_inline]] inline void correlate_band(const Correlation<Number>& all, const float* taps,
                                                  std::int64_t task, float* unpacked) {
  constexpr int kTaps = Pass::kKernel * Pass::kKernel;
  const std::int64_t block = task % all.blocks, band = task / all.blocks % all.bands;
  const std::int64_t image = task / all.blocks / all.bands;
  const Maps<Number> out = all.out.plane(image, block * kLanes, kLanes);
  Window window = all.window;
  window.top += band * all.band * Pass::kStep;
  unpack<kLanes>(all.in.plane(image, block * kLanes, kLanes), window, unpacked);
  taps += block * (kTaps + 1) * kLanes;
  const std::int64_t first = band * all.band * Pass::kPhases;
  const std::int64_t end = std::min(first + all.band * Pass::kPhases, out.height);
  for (std::int64_t y = first; y < end; ++y) {
    const int phase = static_cast<int>(y % Pass::kPhases);
    const Phase rows = Pass::phase(phase);
    const std::int64_t row = (y - first) / Pass::kPhases * Pass::kStep + rows.offset - Pass::kBegin;
    correlate_row<Pass, kLanes, 0>(out, y, unpacked + row * window.columns * kLanes, window.columns,
                                   taps + Pass::taps_before(phase) * Pass::kKernel * kLanes,
                                   rows.taps, taps + kTaps * kLanes);
  }
}

template <typename Pass, typename Number>
[[gnu::target("avx512f")]] void correlate_avx512(const Correlation<Number>& all, const float* taps,
                                                 std::int64_t task, float* unpacked) {
  correlate_band<Pass, 16>(all, taps, task, unpacked);
}

template <typename Pass, typename Number>
[[gnu::target("avx2,fma")]] void correlate_avx2(const Correlation<Number>& all, const float* taps,
                                                std::int64_t task, float* unpacked) {
  correlate_band<Pass, 8>(all, taps, task, unpacked);
}

// Rows of a band, of `all` rows, that unpack about kBandNumbers and differ little.
std::int64_t rows_of_band(std::int64_t all, std::int64_t numbers_a_row) {
  return parts(all, parts(all, std::max<std::int64_t>(1, kBandNumbers / numbers_a_row)));
}

template <typename Pass, typename Number>
void correlate(Correlation<Number> all, Vectors vectors) {
  constexpr int kHalo = Pass::kEnd - Pass::kBegin;
  const int lanes = lanes_of(vectors);
  const std::int64_t numbers = (Pass::kKernel * Pass::kKernel + 1) * lanes;
  const std::int64_t groups = parts(all.out.width, Pass::kPhases * kOutputsAtOnce);
  const std::int64_t columns = (groups * kOutputsAtOnce - 1) * Pass::kStep + kHalo;
  const std::int64_t rows = parts(all.out.height, Pass::kPhases);
  all.blocks = parts(all.out.channels, lanes);
  all.band = rows_of_band(rows, columns * lanes * Pass::kStep);
  all.bands = parts(rows, all.band);
  all.window = {Pass::kBegin, Pass::kBegin, (all.band - 1) * Pass::kStep + kHalo, columns};
  const auto compute =
      vectors == Vectors::kAvx512 ? correlate_avx512<Pass, Number> : correlate_avx2<Pass, Number>;
  Scratch taps(1, all.blocks * numbers);
  Scratch unpacked(omp_get_max_threads(), all.window.rows * columns * lanes);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < all.blocks; ++block)
      pack<Pass>(all, block, lanes, taps.of(0) + block * numbers);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < all.images * all.bands * all.blocks; ++task)
      compute(all, taps.of(0), task, unpacked.of(omp_get_thread_num()));
  }
}

template <typename Number>
struct WeightGradient {
  Maps<const Number> x, dy;
  std::int64_t images;
  std::int64_t blocks = 0, chunks = 0, chunk = 0;  // of channels; of images, and how many it has
  std::int64_t band = 0;                           // rows of dy
  Window window = {};                              // of x for the first band
};

// sums[i][j] += the sum over n < kCount of dy[n] * x[i][n * kStride + j].
template <int kLanes, int kKernel, int kStride, int kRows, int kCount>
[[gnu::always_inline]] inline void add_gradients(
    const float* x, std::int64_t columns, const float* dy,
    typename VectorOf<kLanes>::Type (&sums)[kRows][kKernel]) {
  using Vector = typename VectorOf<kLanes>::Type;
  Vector gradients[kCount];
  std::memcpy(&gradients, dy, sizeof gradients);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const auto* const line = reinterpret_cast<const Vector*>(x + i * columns * kLanes);
#pragma GCC unroll 32
    for (int at = 0; at < (kCount - 1) * kStride + kKernel; ++at) {
      const Vector number = line[at];
#pragma GCC unroll 8
      for (int j = 0; j < kKernel; ++j)
        if (at >= j && (at - j) % kStride == 0 && (at - j) / kStride < kCount)
          sums[i][j] += gradients[(at - j) / kStride] * number;
    }
  }
}

// Of the kernel's rows from kFirst on, as many at once as half of the registers hold.
template <int kLanes, int kKernel, int kStride, int kFirst>
[[gnu::always_inline]] inline void add_band(const float* x, std::int64_t columns, const float* dy,
                                            std::int64_t rows, std::int64_t width, float* out) {
  using Vector = typename VectorOf<kLanes>::Type;
  constexpr int kRows = std::min(kLanes / kKernel, kKernel - kFirst);
  Vector sums[kRows][kKernel] = {};
  for (std::int64_t y = 0; y < rows; ++y) {
    const float* line = x + (y * kStride + kFirst) * columns * kLanes;
    const float* gradients = dy + y * width * kLanes;
    std::int64_t left = width;
    for (; left >= kGradientsAtOnce; left -= kGradientsAtOnce) {
      add_gradients<kLanes, kKernel, kStride, kRows, kGradientsAtOnce>(line, columns, gradients,
                                                                       sums);
      line += kGradientsAtOnce * kStride * kLanes;
      gradients += kGradientsAtOnce * kLanes;
    }
    for (; left > 0; --left, line += kStride * kLanes, gradients += kLanes)
      add_gradients<kLanes, kKernel, kStride, kRows, 1>(line, columns, gradients, sums);
  }
  auto* const to = reinterpret_cast<Vector*>(out + kFirst * kKernel * kLanes);
#pragma GCC unroll 32
  for (int tap = 0; tap < kRows * kKernel; ++tap) to[tap] += sums[tap / kKernel][tap % kKernel];
  if constexpr (kFirst + kRows < kKernel)
    add_band<kLanes, kKernel, kStride, kFirst + kRows>(x, columns, dy, rows, width, out);
}

// The partial sums [kernel, kernel, lanes] of one block over a chunk of images.
template <int kLanes, int kKernel, int kStride, typename Number>
[[gnu::always_inline]] inline void add_chunk(const WeightGradient<Number>& all, std::int64_t task,
                                             float* unpacked, float* sums) {
  const std::int64_t first = task % all.blocks * kLanes, chunk = task / all.blocks;
  const std::int64_t end = std::min((chunk + 1) * all.chunk, all.images);
  float* const gradients = unpacked + all.window.rows * all.window.columns * kLanes;
  std::fill(sums, sums + kKernel * kKernel * kLanes, 0.0F);
  for (std::int64_t image = chunk * all.chunk; image < end; ++image)
    for (std::int64_t y = 0; y < all.dy.height; y += all.band) {
      const std::int64_t rows = std::min(all.band, all.dy.height - y);
      Window window = all.window;
      window.top += y * kStride;
      unpack<kLanes>(all.x.plane(image, first, kLanes), window, unpacked);
      unpack<kLanes>(all.dy.plane(image, first, kLanes), {y, 0, rows, all.dy.width}, gradients);
      add_band<kLanes, kKernel, kStride, 0>(unpacked, window.columns, gradients, rows, all.dy.width,
                                            sums);
    }
}

template <int kKernel, int kStride, typename Number>
[[gnu::target("avx512f")]] void chunk_avx512(const WeightGradient<Number>& all, std::int64_t task,
                                             float* unpacked, float* sums) {
  add_chunk<16, kKernel, kStride>(all, task, unpacked, sums);
}

template <int kKernel, int kStride, typename Number>
[[gnu::target("avx2,fma")]] void chunk_avx2(const WeightGradient<Number>& all, std::int64_t task,
                                            float* unpacked, float* sums) {
  add_chunk<8, kKernel, kStride>(all, task, unpacked, sums);
}

// dweight of one block: the partial sums [chunks, blocks, taps, lanes] of all chunks, the first of
// which it overwrites.
template <typename Number>
void add_up(const WeightGradient<Number>& all, std::int64_t block, std::int64_t taps, int lanes,
            float* sums, float* dweight) {
  float* const total = sums + block * taps * lanes;
  for (std::int64_t chunk = 1; chunk < all.chunks; ++chunk)
    for (std::int64_t i = 0; i < taps * lanes; ++i)
      total[i] += total[chunk * all.blocks * taps * lanes + i];
  const std::int64_t first = block * lanes, end = std::min(first + lanes, all.x.channels);
  for (std::int64_t channel = first; channel < end; ++channel)
    for (std::int64_t tap = 0; tap < taps; ++tap)
      dweight[channel * taps + tap] = total[tap * lanes + channel - first];
}

template <int kKernel, int kStride, typename Number>
void weight_gradient(WeightGradient<Number> all, float* dweight, Vectors vectors) {
  const int lanes = lanes_of(vectors);
  const std::int64_t columns = (all.dy.width - 1) * kStride + kKernel;
  all.blocks = parts(all.x.channels, lanes);
  all.chunk = std::max<std::int64_t>(1, parts(all.images, kMostPartialSums));
  all.chunks = std::max<std::int64_t>(1, parts(all.images, all.chunk));
  all.band = rows_of_band(all.dy.height, columns * lanes * kStride);
  all.window = {-kKernel / 2, -kKernel / 2, (all.band - 1) * kStride + kKernel, columns};
  const auto compute = vectors == Vectors::kAvx512 ? chunk_avx512<kKernel, kStride, Number>
                                                   : chunk_avx2<kKernel, kStride, Number>;
  const std::int64_t numbers = kKernel * kKernel * lanes;
  Scratch sums(1, all.chunks * all.blocks * numbers);
  Scratch unpacked(omp_get_max_threads(),
                   (all.window.rows * columns + all.band * all.dy.width) * lanes);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < all.chunks * all.blocks; ++task)
      compute(all, task, unpacked.of(omp_get_thread_num()), sums.of(0) + task * numbers);
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < all.blocks; ++block)
      add_up(all, block, kKernel * kKernel, lanes, sums.of(0), dweight);
  }
}

// Calls use<kernel, stride, type of number>().
template <typename Use>
void for_shape(const DepthwiseShape& shape, const Use& use) {
  const auto with_kernel = [&]<int kKernel>() {
    const auto with_stride = [&]<int kStride>() {
      shape.type == MapType::kFloat32 ? use.template operator()<kKernel, kStride, float>()
                                      : use.template operator()<kKernel, kStride, Bfloat16>();
    };
    shape.stride == 1 ? with_stride.template operator()<1>() : with_stride.template operator()<2>();
  };
  if (shape.kernel == 3) with_kernel.template operator()<3>();
  if (shape.kernel == 5) with_kernel.template operator()<5>();
  if (shape.kernel == 7) with_kernel.template operator()<7>();
}

template <typename Number, typename Pointer>
Maps<Number> inputs(const DepthwiseShape& shape, Pointer data) {
  return {static_cast<Number*>(data), shape.channels, shape.height, shape.width};
}

template <typename Number, typename Pointer>
Maps<Number> outputs(const DepthwiseShape& shape, Pointer data) {
  return {static_cast<Number*>(data), shape.channels, shape.out_height(), shape.out_width()};
}

}  // namespace

Vectors usable_vectors() {
  if (cpu_has("avx512f")) return Vectors::kAvx512;
  return cpu_has("avx2") && cpu_has("fma") ? Vectors::kAvx2 : Vectors::kNone;
}

void depthwise_output(const DepthwiseShape& shape, const void* x, const float* weight,
                      const float* bias, void* y, Vectors vectors) {
  for_shape(shape, [&]<int kKernel, int kStride, typename Number>() {
    correlate<Scheme<false, kKernel, kStride>, Number>(
        {inputs<const Number>(shape, x), outputs<Number>(shape, y), shape.images, weight, bias},
        vectors);
  });
}

void depthwise_input_gradient(const DepthwiseShape& shape, const void* dy, const float* weight,
                              void* dx, Vectors vectors) {
  for_shape(shape, [&]<int kKernel, int kStride, typename Number>() {
    correlate<Scheme<true, kKernel, kStride>, Number>(
        {outputs<const Number>(shape, dy), inputs<Number>(shape, dx), shape.images, weight,
         nullptr},
        vectors);
  });
}

void depthwise_weight_gradient(const DepthwiseShape& shape, const void* x, const void* dy,
                               float* dweight, Vectors vectors) {
  for_shape(shape, [&]<int kKernel, int kStride, typename Number>() {
    weight_gradient<kKernel, kStride, Number>(
        {inputs<const Number>(shape, x), outputs<const Number>(shape, dy), shape.images}, dweight,
        vectors);
  });
}

}  // namespace kiln
