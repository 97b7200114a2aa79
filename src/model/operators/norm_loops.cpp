// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "model/operators/norm_loops.h"

#include <emmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <list>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/system.h"

namespace kiln {
namespace {

using Index = std::int64_t;

constexpr Index kGroup = 8;    // rows that a loop takes at a time
constexpr Index kBits = 32;    // rows whose bits are a word
constexpr Index kBlock = 256;  // rows whose sums are made in float before they are merged in double
constexpr Index kAlone = 1 << 16;     // numbers that are not worth a second thread
constexpr Index kStreamed = 4 << 20;  // bytes of a map that no cache keeps for the next operator
constexpr Index kTile = 512;  // numbers of these rows that a task takes; their sums stay in L1

struct Bfloat16 {
  std::uint16_t bits;
};

template <typename Number>
using Computed = std::conditional_t<std::is_same_v<Number, double>, double, float>;

template <typename Number, int kLanes>
struct Vector {
  typedef Number Type [[gnu::vector_size(kLanes * sizeof(Number))]];
};

// kStep numbers of a map as vectors to compute with. Those of bfloat16 are two: the numbers at even
// and at odd places, which are the lower and the upper halves of words.
template <typename Map, int kLanesOf>
struct Lanes {
  using Number = Map;
  using Real = Computed<Number>;
  static constexpr bool kIsHalf = std::is_same_v<Number, Bfloat16>;
  static constexpr int kLanes = kLanesOf, kParts = kIsHalf && kLanes > 1 ? 2 : 1;
  using Reals = typename Vector<Real, kLanes>::Type;
  using Words = typename Vector<std::uint32_t, kLanes>::Type;
  using Signs = decltype(Reals() < Reals());
  struct Step {
    Reals at[kParts];
  };

  template <typename To>
  [[gnu::always_inline]] static inline To read(const void* from) {
    To to;
    std::memcpy(&to, from, sizeof to);
    return to;
  }
  // The same place of the next group of rows will be wanted soon.
  [[gnu::always_inline]] static inline Step load(const Number* from, Index width) {
    __builtin_prefetch(from + kGroup * width);
    if constexpr (!kIsHalf) {
      return read<Step>(from);
    } else if constexpr (kParts == 1) {
      return {(Reals)(Words{from->bits} << 16)};
    } else {
      const Words words = read<Words>(from);
      return {(Reals)(words << 16), (Reals)(words & 0xFFFF0000)};
    }
  }
  // To the nearest, ties to even. No NaN has bits that the addition could carry away.
  [[gnu::always_inline]] static inline Words rounded(const Reals& numbers) {
    const Words bits = (Words)numbers;
    return bits + 0x7FFF + (bits >> 16 & 1);
  }
  // Past the caches if it streams.
  template <typename Numbers>
  [[gnu::always_inline]] static inline void put(const Numbers& numbers, void* to, bool streams) {
    if (sizeof numbers % sizeof(__m128i) != 0 || !streams) {
      std::memcpy(to, &numbers, sizeof numbers);
      return;
    }
    for (std::size_t at = 0; at < sizeof numbers; at += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<char*>(to) + at),
                       read<__m128i>(reinterpret_cast<const char*>(&numbers) + at));
  }
  [[gnu::always_inline]] static inline void store(const Step& step, Number* to, bool streams) {
    if constexpr (!kIsHalf)
      put(step, to, streams);
    else if constexpr (kParts == 1)
      to->bits = static_cast<std::uint16_t>(rounded(step.at[0])[0] >> 16);
    else
      put(rounded(step.at[0]) >> 16 | (rounded(step.at[1]) & 0xFFFF0000), to, streams);
  }

  // e^x to some units in the last place, within what float can tell from 0 and infinity: 2^n times
  // the series of the rest. Adding kWhole rounds to the integer n, and leaves it in the lowest
  // bits.
  [[gnu::always_inline]] static inline Reals exponential(Reals x) {
    if constexpr (std::is_same_v<Real, double>) {
      for (int i = 0; i < kLanes; ++i) x[i] = std::exp(x[i]);
      return x;
    } else {
      constexpr float kWhole = 3 << 22;
      const Reals low = Reals{} - 87, high = Reals{} + 88;
      x = x < low ? low : x > high ? high : x;
      const Reals n = x * 1.44269504F + kWhole, whole = n - kWhole;
      const Reals r = x - whole * 0.693359375F + whole * 2.12194440e-4F;
      Reals sum = r * (1 / 720.F) + 1 / 120.F;
      for (const float next : {1 / 24.F, 1 / 6.F, 0.5F, 1.F, 1.F}) sum = sum * r + next;
      return (Reals)((Words)sum + ((Words)n << 23));
    }
  }
  template <Activation kActivation>
  [[gnu::always_inline]] static inline Reals activated(const Reals& u) {
    const Reals zero{}, six = zero + 6;
    if constexpr (kActivation == Activation::kRelu) return u <= 0 ? zero : u;
    if constexpr (kActivation == Activation::kSilu) return u / (1 + exponential(-u));
    if constexpr (kActivation == Activation::kHardswish)
      return u * (u < -3 ? zero : u > 3 ? six : u + 3) * (Real)(1 / 6.);
    return u;
  }
  // The gradient of u.
  template <Activation kActivation>
  [[gnu::always_inline]] static inline Reals gradient(const Reals& u, const Reals& dy) {
    const Reals zero{};
    if constexpr (kActivation == Activation::kRelu) return u <= 0 ? zero : dy;
    if constexpr (kActivation == Activation::kSilu) {
      const Reals sigmoid = 1 / (1 + exponential(-u));
      return dy * sigmoid * (1 + u * (1 - sigmoid));
    }
    if constexpr (kActivation == Activation::kHardswish)
      return u < -3 ? zero : u > 3 ? dy : dy * (u * (Real)(1 / 3.) + (Real)0.5);
    return dy;
  }
};

template <typename T>
std::vector<T> zeros(Index size) {
  return std::vector<T>(static_cast<std::size_t>(size));
}

int lanes_for(const NormMaps& maps) {
  static const bool kHasAvx2 = cpu_has("avx2") && cpu_has("fma"),
                    kHasAvx512 = kHasAvx2 && cpu_has("avx512bw") && cpu_has("avx512dq") &&
                                 cpu_has("avx512vl");
  return maps.type == MapType::kFloat64 ? 2 : kHasAvx512 ? 16 : kHasAvx2 ? 8 : 4;
}

// So many rows are joined to one that it is whole steps. Numbers of maps whose rows cannot all be
// joined are taken one by one.
struct Grid {
  Index channels, rows, width, step;
  int lanes;
  bool is_paired;

  explicit Grid(const NormMaps& maps) : channels(maps.channels), lanes(lanes_for(maps)) {
    is_paired = maps.type == MapType::kBfloat16;
    step = is_paired ? 2 * lanes : lanes;
    Index copies = step / std::gcd(step, channels);
    if (maps.rows % copies != 0) copies = lanes = 1, step = 1, is_paired = false;
    rows = maps.rows / copies;
    width = copies * channels;
  }
  Index blocks() const { return (rows + kBlock - 1) / kBlock; }
  // Calls use(lane, channel) for the places of a row in vectors.
  template <typename Use>
  void each_lane(const Use& use) const {
    for (Index begin = 0, first = 0; begin < width;
         begin += step, first = (first + step) % channels)
      for (Index i = 0; i < step; ++i) {
        Index c = first + (!is_paired ? i : i < lanes ? 2 * i : 2 * (i - lanes) + 1);
        while (c >= channels) c -= channels;
        use(begin + i, c);
      }
  }
};

// Rows of a block, columns of a tile.
struct Part {
  Index row, end_row, column, end_column;
};

enum class Task { kStatistics, kNormalize, kNormalizeSum, kSums, kSumsByBits, kGradient, kFixed };

// The arguments of all tasks. `second`: added, or dy. What belongs to a lane is [width].
template <typename Number>
struct Pass {
  using Real = Computed<Number>;
  using Word = std::conditional_t<std::is_same_v<Real, double>, std::int64_t, std::int32_t>;
  Index width = 0;
  const Number *x = nullptr, *second = nullptr;
  Number* out = nullptr;
  Word* bits = nullptr;  // [rows / kBits, width]
  const Real *mean = nullptr, *factor = nullptr, *bias = nullptr, *slope = nullptr,
             *offset = nullptr;
  bool streams = false;
  Real* partial = nullptr;  // [blocks, 3, width]: sums of d, and of d * (x - mean); that mean
};

// Calls use(row, column, number of rows) for the groups of rows of a part.
template <int kStep, typename Use>
[[gnu::always_inline]] inline void each_group(const Part& part, const Use& use) {
  for (Index row = part.row; row < part.end_row; row += kGroup)
    for (Index column = part.column; column < part.end_column; column += kStep)
      if (row + kGroup <= part.end_row)
        use(row, column, std::integral_constant<Index, kGroup>());
      else
        use(row, column, part.end_row - row);
}

template <typename L, Task kTask, Activation kActivation>
[[gnu::always_inline]] inline void run(const Pass<typename L::Number> pass, const Part& part) {
  using Step = typename L::Step;
  using enum Task;
  constexpr bool kSumsUp = kTask == kStatistics || kTask == kSums || kTask == kSumsByBits;
  constexpr bool kWritesBits = kTask == kNormalizeSum && kActivation == Activation::kRelu;
  const auto use = [&](Index row, Index column, auto rows) __attribute__((always_inline)) {
    const Index width = pass.width, at = row * width + column;
    auto* const partial = pass.partial + part.row / kBlock * 3 * width + column;
    auto* const words = pass.bits + row / kBits * width + column;
    Step mean = L::template read<Step>(pass.mean + column), sum{}, products{};
    const Step factor = L::template read<Step>(pass.factor + column),
               bias = L::template read<Step>(pass.bias + column),
               slope = L::template read<Step>(pass.slope + column),
               offset = L::template read<Step>(pass.offset + column);
    typename L::Signs bits[L::kParts]{};
    if (kTask == kSumsByBits || (kWritesBits && row % kBits > 0))
      std::memcpy(bits, words, sizeof bits);
    if (kSumsUp && row > part.row) {
      sum = L::template read<Step>(partial);
      products = L::template read<Step>(partial + width);
    }
    if (kTask == kStatistics && row > part.row) {
      mean = L::template read<Step>(partial + 2 * width);
    } else if (kTask == kStatistics) {  // near enough that the sums are those of small numbers
      for (Index r = 0; r < rows; ++r) {
        const Step x = L::load(pass.x + at + r * width, width);
        for (int p = 0; p < L::kParts; ++p)
          mean.at[p] = mean.at[p] + x.at[p] * (1 / static_cast<typename L::Real>(rows));
      }
      std::memcpy(partial + 2 * width, &mean, sizeof mean);
    }
    for (Index r = 0; r < rows; ++r) {
      const auto bit = static_cast<std::int32_t>(1U << (row % kBits + r));
      const Step x = L::load(pass.x + at + r * width, width);
      Step out{};
      if constexpr (kTask != kStatistics && kTask != kNormalize)
        out = L::load(pass.second + at + r * width, width);
      for (int p = 0; p < L::kParts; ++p) {
        const auto centered = x.at[p] - mean.at[p], u = centered * factor.at[p] + bias.at[p];
        auto& d = out.at[p];
        if constexpr (kTask == kStatistics) d = centered;
        if constexpr (kTask == kNormalize) d = L::template activated<kActivation>(u);
        if constexpr (kTask == kNormalizeSum) {
          d += u;
          if (kWritesBits) bits[p] |= ~(d <= 0) & bit;
          d = L::template activated<kActivation>(d);
        }
        if constexpr (kTask == kSumsByBits) d = (bits[p] & bit) == 0 ? typename L::Reals{} : d;
        if constexpr (kTask == kSums || kTask == kGradient || kTask == kFixed)
          d = L::template gradient<kActivation>(u, d);
        if constexpr (kSumsUp) sum.at[p] += d, products.at[p] += d * centered;
        if constexpr (kTask == kFixed) d *= factor.at[p];
        if constexpr (kTask == kGradient)
          d = d * factor.at[p] + (centered * slope.at[p] + offset.at[p]);
      }
      if constexpr (kTask != kStatistics && kTask != kSums)
        L::store(out, pass.out + at + r * width, pass.streams);
    }
    if constexpr (kSumsUp) {
      std::memcpy(partial, &sum, sizeof sum);
      std::memcpy(partial + width, &products, sizeof products);
    }
    if constexpr (kWritesBits) std::memcpy(words, bits, sizeof bits);
  };
  each_group<L::kLanes * L::kParts>(part, use);
  if (pass.streams) _mm_sfence();
}

template <typename Number, int kLanes, Task kTask, Activation kActivation>
void plain(const Pass<Number>& pass, const Part& part) {
  run<Lanes<Number, kLanes>, kTask, kActivation>(pass, part);
}
template <typename Number, Task kTask, Activation kActivation>
[[gnu::target("avx2,fma")]] void avx2(const Pass<Number>& pass, const Part& part) {
  run<Lanes<Number, 8>, kTask, kActivation>(pass, part);
}
template <typename Number, Task kTask, Activation kActivation>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void avx512(const Pass<Number>& pass,
                                                                  const Part& part) {
  run<Lanes<Number, 16>, kTask, kActivation>(pass, part);
}

// A call: its arguments, with what belongs to a channel in the order of the lanes.
template <typename Number>
struct Work {
  using Real = Computed<Number>;
  using Word = typename Pass<Number>::Word;
  Grid grid;
  Pass<Number> pass{};
  std::list<std::vector<Real>> kept;

  Work(const NormMaps& maps, const void* x, const void* second, void* out) : grid(maps) {
    pass = {.width = grid.width,
            .x = static_cast<const Number*>(x),
            .second = static_cast<const Number*>(second),
            .out = static_cast<Number*>(out)};
    pass.mean = pass.factor = pass.bias = pass.slope = pass.offset =
        kept.emplace_back(zeros<Real>(grid.width)).data();
  }
  Work(const NormMaps& maps, const NormChannels& of, const void* x, const void* second, void* out)
      : Work(maps, x, second, out) {
    pass.mean = keep([&](Index c) { return in(of.mean, c); });
    pass.factor = keep([&](Index c) { return in(of.scale, c) * in(of.weight, c); });
    pass.bias = keep([&](Index c) { return in(of.bias, c); });
  }
  static Real in(const void* array, Index c) { return static_cast<const Real*>(array)[c]; }

  template <typename Value>
  const Real* keep(const Value& value) {
    Real* const lanes = kept.emplace_back(zeros<Real>(grid.width)).data();
    grid.each_lane([&](Index lane, Index c) {
      const Real of = value(c);
      lanes[lane] = of == of ? of : std::numeric_limits<Real>::quiet_NaN();  // see rounded()
    });
    return lanes;
  }

  // From the last part to the first if reversed: what the pass before has read last is still in the
  // cache.
  template <Task kTask, Activation kActivation>
  void run(bool is_reversed) {
    if (kTask == Task::kStatistics || kTask == Task::kSums || kTask == Task::kSumsByBits)
      pass.partial = kept.emplace_back(zeros<Real>(grid.blocks() * 3 * grid.width)).data();
    auto* loop = plain<Number, 16 / sizeof(Real), kTask, kActivation>;
    if constexpr (!std::is_same_v<Number, double>) {
      if (grid.lanes == 8) loop = avx2<Number, kTask, kActivation>;
      if (grid.lanes == 16) loop = avx512<Number, kTask, kActivation>;
    }
    if (grid.lanes == 1) loop = plain<Number, 1, kTask, kActivation>;
    pass.streams = grid.rows * grid.width * Index{sizeof(Number)} >= kStreamed;
    const Index tiles = (grid.width + kTile - 1) / kTile, num_parts = grid.blocks() * tiles;
#pragma omp parallel for schedule(static) if (grid.rows * grid.width > kAlone)
    for (Index i = 0; i < num_parts; ++i) {
      const Index part = is_reversed ? num_parts - 1 - i : i;
      const Index row = part / tiles * kBlock, column = part % tiles * kTile;
      loop(pass,
           {row, std::min(row + kBlock, grid.rows), column, std::min(column + kTile, grid.width)});
    }
  }

  // Calls use(lane, rows, sum, products, mean) for the blocks of each lane in turn.
  template <typename Use>
  void each_sum(const Use& use) const {
#pragma omp parallel for schedule(static) if (grid.blocks() > kBlock)
    for (Index begin = 0; begin < grid.width; begin += grid.step)
      for (Index block = 0; block < grid.blocks(); ++block) {
        const auto count = static_cast<double>(std::min(kBlock, grid.rows - block * kBlock));
        const Real *const sums = pass.partial + block * 3 * grid.width,
                          *const products = sums + grid.width, *const means = products + grid.width;
        for (Index i = begin; i < begin + grid.step; ++i)
          use(i, count, double{sums[i]}, double{products[i]}, double{means[i]});
      }
  }
};

// Calls use(Number()) with the type of the maps.
template <typename Use>
void with_type(MapType type, const Use& use) {
  if (type == MapType::kFloat32) use(float());
  if (type == MapType::kBfloat16) use(Bfloat16());
  if (type == MapType::kFloat64) use(double());
}

template <typename Use>
void with_activation(Activation activation, const Use& use) {
  using enum Activation;
  if (activation == kNone) use(std::integral_constant<Activation, kNone>());
  if (activation == kRelu) use(std::integral_constant<Activation, kRelu>());
  if (activation == kHardswish) use(std::integral_constant<Activation, kHardswish>());
  if (activation == kSilu) use(std::integral_constant<Activation, kSilu>());
}

}  // namespace

std::size_t num_bit_bytes(const NormMaps& maps) {
  const Grid grid(maps);
  return static_cast<std::size_t>((grid.rows + kBits - 1) / kBits * grid.width) *
         (maps.type == MapType::kFloat64 ? sizeof(double) : sizeof(float));
}

void mean_and_scale(const NormMaps& maps, const void* x, const NormStatistics& of) {
  with_type(maps.type, [&](auto number) {
    using Real = Computed<decltype(number)>;
    Work<decltype(number)> work(maps, x, nullptr, nullptr);
    work.template run<Task::kStatistics, Activation::kNone>(false);
    const auto count = static_cast<double>(maps.rows);
    auto lanes = zeros<double>(work.grid.width), centers = lanes,
         means = zeros<double>(maps.channels), squares = means;
    double *const lane = lanes.data(), *const center = centers.data(), *const mean = means.data(),
                  *const square = squares.data();
    work.each_sum([&](Index i, double rows, double sum, double, double middle) {
      lane[i] += middle * rows + sum;
    });
    work.grid.each_lane([&](Index i, Index c) { mean[c] += std::exchange(lane[i], 0) / count; });
    work.grid.each_lane([&](Index i, Index c) { center[i] = mean[c]; });
    work.each_sum([&](Index i, double rows, double sum, double products, double middle) {
      const double distance = middle + sum / rows - center[i], own = products - sum * sum / rows;
      lane[i] += (own < 0 ? 0 : own) + distance * distance * rows;
    });
    work.grid.each_lane([&](Index i, Index c) { square[c] += lane[i]; });
    const auto move = [&](void* running, const double* to) {
      for (Index c = 0; c < maps.channels && running != nullptr; ++c) {
        Real& value = static_cast<Real*>(running)[c];
        value = static_cast<Real>((1 - of.momentum) * double{value} + of.momentum * to[c]);
      }
    };
    auto *const mean_out = static_cast<Real*>(of.mean), *const scale = static_cast<Real*>(of.scale);
    for (Index c = 0; c < maps.channels; ++c) {
      mean_out[c] = static_cast<Real>(mean[c]);
      scale[c] = static_cast<Real>(1 / std::sqrt(square[c] / count + of.epsilon));
      square[c] /= count - 1;
    }
    move(of.running_mean, mean);
    move(of.running_variance, square);
  });
}

void normalize(const NormMaps& maps, const NormChannels& of, Activation activation, const void* x,
               const void* added, void* y, void* bits) {
  with_type(maps.type, [&](auto number) {
    Work<decltype(number)> work(maps, of, x, added, y);
    work.pass.bits = static_cast<typename decltype(work)::Word*>(bits);
    with_activation(activation, [&](auto which) {
      if (added == nullptr)
        work.template run<Task::kNormalize, which()>(true);
      else if constexpr (which() == Activation::kNone || which() == Activation::kRelu)
        work.template run<Task::kNormalizeSum, which()>(true);
    });
  });
}

void gradient_sums(const NormMaps& maps, const NormChannels& of, Activation activation,
                   const void* x, const void* dy, const void* bits, void* du, void* sums) {
  with_type(maps.type, [&](auto number) {
    using Real = Computed<decltype(number)>;
    Work<decltype(number)> work(maps, of, x, dy, du);
    work.pass.bits = static_cast<typename decltype(work)::Word*>(const_cast<void*>(bits));
    if (bits != nullptr)
      work.template run<Task::kSumsByBits, Activation::kNone>(false);
    else
      with_activation(activation,
                      [&](auto which) { work.template run<Task::kSums, which()>(false); });
    const Index width = work.grid.width, channels = maps.channels;
    auto lanes = zeros<double>(2 * width), all = zeros<double>(2 * channels);
    double *const lane = lanes.data(), *const total = all.data();
    work.each_sum([&](Index i, double, double sum, double products, double) {
      lane[i] += sum;
      lane[width + i] += products;
    });
    work.grid.each_lane([&](Index i, Index c) {
      total[c] += lane[i];
      total[channels + c] += lane[width + i];
    });
    std::transform(all.begin(), all.end(), static_cast<Real*>(sums),
                   [](double sum) { return static_cast<Real>(sum); });
  });
}

void input_gradient(const NormMaps& maps, const NormChannels& of, const void* means,
                    Activation activation, const void* x, const void* dy, void* dx) {
  with_type(maps.type, [&](auto number) {
    using Works = Work<decltype(number)>;
    Works work(maps, of, x, dy, dx);
    if (means != nullptr) {
      work.pass.slope = work.keep([&](Index c) {
        const auto scale = Works::in(of.scale, c);
        return -scale * scale * scale * Works::in(of.weight, c) *
               Works::in(means, maps.channels + c);
      });
      work.pass.offset = work.keep([&](Index c) {
        return -Works::in(of.scale, c) * Works::in(of.weight, c) * Works::in(means, c);
      });
    }
    with_activation(activation, [&](auto which) {
      if (means == nullptr)
        work.template run<Task::kFixed, which()>(true);
      else
        work.template run<Task::kGradient, which()>(true);
    });
  });
}

}  // namespace kiln
