// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "model/operators/norm_loops.h"

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
constexpr Index kTile = 512;   // numbers of these rows that a task takes; their sums stay in L1

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
  static constexpr int kLanes = kLanesOf, kParts = std::is_same_v<Number, Bfloat16> ? 2 : 1,
                       kStep = kLanes * kParts;
  using Reals = typename Vector<Real, kLanes>::Type;
  using Words = typename Vector<std::uint32_t, kLanes>::Type;
  using Integers = typename Vector<std::int32_t, kLanes>::Type;
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
    if constexpr (kParts == 1) {
      return read<Step>(from);
    } else {
      const Words words = read<Words>(from);
      return {(Reals)(words << 16), (Reals)(words & 0xFFFF0000)};
    }
  }
  // bfloat16 is rounded to the nearest, ties to even. No NaN has bits that a carry could run into.
  [[gnu::always_inline]] static inline void store(const Step& step, Number* to) {
    if constexpr (kParts == 1) {
      std::memcpy(to, &step, sizeof step);
    } else {
      const auto rounded = [](Reals numbers) __attribute__((always_inline)) {
        const Words bits = (Words)numbers;
        return bits + 0x7FFF + (bits >> 16 & 1);
      };
      const Words words = rounded(step.at[0]) >> 16 | (rounded(step.at[1]) & 0xFFFF0000);
      std::memcpy(to, &words, sizeof words);
    }
  }

  // e^x, to 2 units in the last place; infinite from 89 on. Range reduction and series as usual.
  [[gnu::always_inline]] static inline Reals exponential(Reals x) {
    if constexpr (std::is_same_v<Real, double>) {
      for (int i = 0; i < kLanes; ++i) x[i] = std::exp(x[i]);
      return x;
    } else {
      const Reals low = Reals{} - 87, high = Reals{} + 89, half = Reals{} + 0.5F;
      x = x < low ? low : x > high ? high : x;
      const Reals scaled = x * 1.44269504F;
      const Integers n = __builtin_convertvector(scaled + (scaled < 0 ? -half : half), Integers);
      const Reals whole = __builtin_convertvector(n, Reals);
      const Reals r = x - whole * 0.693359375F + whole * 2.12194440e-4F;
      Reals sum = r * (1 / 5040.F) + 1 / 720.F;
      for (const float next : {1 / 120.F, 1 / 24.F, 1 / 6.F, 0.5F, 1.F, 1.F}) sum = sum * r + next;
      return sum * (Reals)((n + 127) << 23);
    }
  }
  template <Activation kActivation>
  [[gnu::always_inline]] static inline Reals activated(Reals u) {
    const Reals zero{}, six = zero + 6;
    if constexpr (kActivation == Activation::kRelu) return u <= 0 ? zero : u;
    if constexpr (kActivation == Activation::kSilu) return u / (1 + exponential(-u));
    if constexpr (kActivation == Activation::kHardswish)
      return u * (u < -3 ? zero : u > 3 ? six : u + 3) * (Real)(1 / 6.);
    return u;
  }
  // The gradient of u.
  template <Activation kActivation>
  [[gnu::always_inline]] static inline Reals gradient(Reals u, Reals dy) {
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

// So many rows are joined to one that all but the last, shorter one are whole steps.
struct Grid {
  Index step, channels, copies, rows, width, left;  // left: numbers of the last row
  bool is_paired;

  Grid(const NormMaps& maps, Index lanes)
      : step(maps.type == MapType::kBfloat16 ? 2 * lanes : lanes),
        channels(maps.channels),
        copies(step / std::gcd(step, channels)),
        rows(maps.rows / copies),
        width(copies * channels),
        left(maps.rows % copies * channels),
        is_paired(maps.type == MapType::kBfloat16) {}
  Index blocks() const { return (rows + kBlock - 1) / kBlock; }
  Index tiles() const { return (width + kTile - 1) / kTile; }
  Index words() const { return (rows + kBits - 1) / kBits * width; }
  // Calls use(number of a row, its lane: where it stands in vectors, its channel).
  template <typename Use>
  void each_number(const Use& use) const {
    for (Index begin = 0; begin < width; begin += channels)
      for (Index c = 0; c < channels; ++c) {
        const Index number = begin + c, place = number & (step - 1);
        use(number, is_paired ? number - place + place % 2 * (step / 2) + place / 2 : number, c);
      }
  }
};

// A task: rows of a block, columns of a tile.
struct Part {
  Index row, end_row, column, end_column;
};

// The arguments of all passes. `second`: added, or dy. What belongs to a lane is [width].
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
  Real* partial = nullptr;  // [blocks, 3, width]
};

// Calls use(row, column, number of rows) for the groups of rows of a part.
template <int kStep, typename Use>
[[gnu::always_inline]] inline void each_group(const Part& part, const Use& use) {
  for (Index row = part.row; row < part.end_row; row += kGroup)
    if (row + kGroup <= part.end_row)
      for (Index column = part.column; column < part.end_column; column += kStep)
        use(row, column, std::integral_constant<Index, kGroup>());
    else
      for (Index column = part.column; column < part.end_column; column += kStep)
        use(row, column, part.end_row - row);
}

// Sums over the rows of a part of x - shift and of its square; the shift is the mean of its first
// rows, so that the sums are those of small numbers.
struct Statistics {
  template <typename L>
  [[gnu::always_inline]] static inline void run(const Pass<typename L::Number> pass,
                                                const Part& part) {
    using Step = typename L::Step;
    each_group<L::kStep>(
        part, [&](Index row, Index column, auto rows) __attribute__((always_inline)) {
          auto* const partial = pass.partial + part.row / kBlock * 3 * pass.width + column;
          const auto* const x = pass.x + row * pass.width + column;
          Step sum{}, squares{}, shift{};
          if (row == part.row) {
            for (Index r = 0; r < rows; ++r) {
              const Step numbers = L::load(x + r * pass.width, pass.width);
              for (int p = 0; p < L::kParts; ++p) shift.at[p] += numbers.at[p];
            }
            for (auto& one : shift.at) one /= static_cast<typename L::Real>(rows);
            std::memcpy(partial + 2 * pass.width, &shift, sizeof shift);
          } else {
            sum = L::template read<Step>(partial);
            squares = L::template read<Step>(partial + pass.width);
            shift = L::template read<Step>(partial + 2 * pass.width);
          }
          for (Index r = 0; r < rows; ++r) {
            const Step numbers = L::load(x + r * pass.width, pass.width);
            for (int p = 0; p < L::kParts; ++p) {
              const auto d = numbers.at[p] - shift.at[p];
              sum.at[p] += d;
              squares.at[p] += d * d;
            }
          }
          std::memcpy(partial, &sum, sizeof sum);
          std::memcpy(partial + pass.width, &squares, sizeof squares);
        });
  }
};

template <Activation kActivation, bool kAdds>
struct Normalize {
  template <typename L>
  [[gnu::always_inline]] static inline void run(const Pass<typename L::Number> pass,
                                                const Part& part) {
    using Step = typename L::Step;
    constexpr bool kWritesBits = kAdds && kActivation == Activation::kRelu;
    each_group<L::kStep>(
        part, [&](Index row, Index column, auto rows) __attribute__((always_inline)) {
          const Step mean = L::template read<Step>(pass.mean + column),
                     factor = L::template read<Step>(pass.factor + column),
                     bias = L::template read<Step>(pass.bias + column);
          const Index at = row * pass.width + column;
          typename L::Signs bits[L::kParts]{};
          for (Index r = 0; r < rows; ++r) {
            Step u = L::load(pass.x + at + r * pass.width, pass.width), added{};
            if constexpr (kAdds) added = L::load(pass.second + at + r * pass.width, pass.width);
            for (int p = 0; p < L::kParts; ++p) {
              u.at[p] = (u.at[p] - mean.at[p]) * factor.at[p] + bias.at[p];
              if constexpr (kAdds) u.at[p] += added.at[p];
              if constexpr (kWritesBits) bits[p] |= ~(u.at[p] <= 0) & (1 << r);
              u.at[p] = L::template activated<kActivation>(u.at[p]);
            }
            L::store(u, pass.out + at + r * pass.width);
          }
          if constexpr (kWritesBits) {
            auto* const words = pass.bits + row / kBits * pass.width + column;
            for (int p = 0; p < L::kParts; ++p) {
              bits[p] <<= row % kBits;
              if (row % kBits > 0)
                bits[p] |= L::template read<typename L::Signs>(words + p * L::kLanes);
            }
            std::memcpy(words, bits, sizeof bits);
          }
        });
  }
};

// Sums over the rows of a part of du and of du * (x - mean).
template <Activation kActivation, bool kReadsBits>
struct Sums {
  template <typename L>
  [[gnu::always_inline]] static inline void run(const Pass<typename L::Number> pass,
                                                const Part& part) {
    using Step = typename L::Step;
    each_group<L::kStep>(
        part, [&](Index row, Index column, auto rows) __attribute__((always_inline)) {
          auto* const partial = pass.partial + part.row / kBlock * 3 * pass.width + column;
          const Index at = row * pass.width + column;
          const Step mean = L::template read<Step>(pass.mean + column),
                     factor = L::template read<Step>(pass.factor + column),
                     bias = L::template read<Step>(pass.bias + column);
          Step sum{}, products{};
          if (row > part.row) {
            sum = L::template read<Step>(partial);
            products = L::template read<Step>(partial + pass.width);
          }
          typename L::Signs bits[L::kParts]{};
          if constexpr (kReadsBits) {
            std::memcpy(bits, pass.bits + row / kBits * pass.width + column, sizeof bits);
            for (auto& one : bits) one >>= row % kBits;
          }
          for (Index r = 0; r < rows; ++r) {
            const Step x = L::load(pass.x + at + r * pass.width, pass.width);
            Step d = L::load(pass.second + at + r * pass.width, pass.width);
            for (int p = 0; p < L::kParts; ++p) {
              const auto centered = x.at[p] - mean.at[p];
              if constexpr (kReadsBits)
                d.at[p] = (bits[p] & (1 << r)) == 0 ? typename L::Reals{} : d.at[p];
              else
                d.at[p] = L::template gradient<kActivation>(centered * factor.at[p] + bias.at[p],
                                                            d.at[p]);
              sum.at[p] += d.at[p];
              products.at[p] += d.at[p] * centered;
            }
            if constexpr (kReadsBits) L::store(d, pass.out + at + r * pass.width);
          }
          std::memcpy(partial, &sum, sizeof sum);
          std::memcpy(partial + pass.width, &products, sizeof products);
        });
  }
};

// kFixed: mean and scale do not depend on x.
template <Activation kActivation, bool kFixed>
struct InputGradient {
  template <typename L>
  [[gnu::always_inline]] static inline void run(const Pass<typename L::Number> pass,
                                                const Part& part) {
    using Step = typename L::Step;
    each_group<L::kStep>(
        part, [&](Index row, Index column, auto rows) __attribute__((always_inline)) {
          const Step mean = L::template read<Step>(pass.mean + column),
                     factor = L::template read<Step>(pass.factor + column),
                     bias = L::template read<Step>(pass.bias + column);
          Step slope{}, offset{};
          if constexpr (!kFixed) {
            slope = L::template read<Step>(pass.slope + column);
            offset = L::template read<Step>(pass.offset + column);
          }
          const Index at = row * pass.width + column;
          for (Index r = 0; r < rows; ++r) {
            const Step x = L::load(pass.x + at + r * pass.width, pass.width);
            Step d = L::load(pass.second + at + r * pass.width, pass.width);
            for (int p = 0; p < L::kParts; ++p) {
              const auto centered = x.at[p] - mean.at[p];
              const auto du =
                  L::template gradient<kActivation>(centered * factor.at[p] + bias.at[p], d.at[p]);
              d.at[p] = du * factor.at[p];
              if constexpr (!kFixed) d.at[p] += centered * slope.at[p] + offset.at[p];
            }
            L::store(d, pass.out + at + r * pass.width);
          }
        });
  }
};

template <typename Loop, typename Number, int kLanes>
void plain(const Pass<Number>& pass, const Part& part) {
  Loop::template run<Lanes<Number, kLanes>>(pass, part);
}
template <typename Loop, typename Number>
[[gnu::target("avx2,fma")]] void avx2(const Pass<Number>& pass, const Part& part) {
  Loop::template run<Lanes<Number, 8>>(pass, part);
}
template <typename Loop, typename Number>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void avx512(const Pass<Number>& pass,
                                                                  const Part& part) {
  Loop::template run<Lanes<Number, 16>>(pass, part);
}

// Numbers that are computed with at a time.
int num_lanes(MapType type) {
  static const bool has_avx2 = cpu_has("avx2") && cpu_has("fma"),
                    has_avx512 = has_avx2 && cpu_has("avx512bw") && cpu_has("avx512dq") &&
                                 cpu_has("avx512vl");
  if (type == MapType::kFloat64) return 2;
  return has_avx512 ? 16 : has_avx2 ? 8 : 4;
}

template <typename Loop, typename Number>
auto loop_for(MapType type) {
  auto* loop = plain<Loop, Number, 16 / sizeof(Computed<Number>)>;
  if constexpr (!std::is_same_v<Number, double>) {
    if (num_lanes(type) == 8) loop = avx2<Loop, Number>;
    if (num_lanes(type) == 16) loop = avx512<Loop, Number>;
  }
  return loop;
}

// What a call computes with, in the order of the lanes.
template <typename Number>
class Work {
 public:
  using Real = Computed<Number>;
  using Word = typename Pass<Number>::Word;

  explicit Work(const NormMaps& maps)
      : type_(maps.type), grid_(maps, num_lanes(maps.type)), pass_{.width = grid_.width} {}
  Work(const NormMaps& maps, const NormChannels& of) : Work(maps) {
    const auto in = [](const void* array, Index c) { return static_cast<const Real*>(array)[c]; };
    pass_.mean = keep([&](Index c) { return in(of.mean, c); });
    pass_.factor = keep([&](Index c) { return in(of.scale, c) * in(of.weight, c); });
    pass_.bias = keep([&](Index c) { return in(of.bias, c); });
  }

  const Grid& grid() const { return grid_; }
  Pass<Number>& pass() { return pass_; }
  void set_maps(const void* x, const void* second, void* out) {
    pass_.x = static_cast<const Number*>(x);
    pass_.second = static_cast<const Number*>(second);
    pass_.out = static_cast<Number*>(out);
  }
  // value(channel) for each lane. No NaN has bits that rounding could carry away.
  template <typename Value>
  const Real* keep(const Value& value) {
    auto& lanes = kept_.emplace_back(zeros<Real>(grid_.width));
    grid_.each_number([&](Index, Index lane, Index c) {
      const Real of = value(c);
      lanes.data()[lane] = of == of ? of : std::numeric_limits<Real>::quiet_NaN();
    });
    return lanes.data();
  }
  // Makes room for sums: of the blocks, and at last of the numbers that are left.
  const Real* keep_sums() {
    pass_.partial = kept_.emplace_back(zeros<Real>((grid_.blocks() + 1) * 3 * grid_.width)).data();
    return pass_.partial;
  }

  // All parts of the grid, from the last to the first if reversed: what the pass before has read
  // last is still in the cache.
  template <typename Loop>
  void run(bool is_reversed) {
    auto* const loop = loop_for<Loop, Number>(type_);
    const Index tiles = grid_.tiles(), num_parts = grid_.blocks() * tiles;
#pragma omp parallel for schedule(static) if (num_parts > 1)
    for (Index i = 0; i < num_parts; ++i) {
      const Index part = is_reversed ? num_parts - 1 - i : i;
      const Index row = part / tiles * kBlock, column = part % tiles * kTile;
      loop(pass_, {row, std::min(row + kBlock, grid_.rows), column,
                   std::min(column + kTile, grid_.width)});
    }
    if (grid_.left > 0) run_left(loop);
  }

 private:
  // Over the last row, in copies with zeros where it has no numbers.
  void run_left(void (*loop)(const Pass<Number>&, const Part&)) const {
    Pass<Number> pass = pass_;
    const Index at = grid_.rows * grid_.width;
    auto x = zeros<Number>(grid_.width), second = x, out = x;
    std::copy_n(pass.x + at, grid_.left, x.begin());
    if (pass.second != nullptr) std::copy_n(pass.second + at, grid_.left, second.begin());
    pass.x = x.data();
    pass.second = second.data();
    pass.out = out.data();
    if (pass.bits != nullptr) pass.bits += grid_.words();
    if (pass.partial != nullptr) pass.partial += grid_.blocks() * 3 * grid_.width;
    loop(pass, {0, 1, 0, grid_.width});
    if (pass_.out != nullptr) std::copy_n(out.begin(), grid_.left, pass_.out + at);
  }

  MapType type_;
  Grid grid_;
  Pass<Number> pass_;
  std::list<std::vector<Real>> kept_;
};

// Calls use(Number()) with the type of the maps.
template <typename Use>
auto with_type(MapType type, const Use& use) {
  if (type == MapType::kFloat32) return use(float());
  if (type == MapType::kBfloat16) return use(Bfloat16());
  return use(double());
}

template <typename Use>
void with_activation(Activation activation, const Use& use) {
  using enum Activation;
  if (activation == kNone) use(std::integral_constant<Activation, kNone>());
  if (activation == kRelu) use(std::integral_constant<Activation, kRelu>());
  if (activation == kHardswish) use(std::integral_constant<Activation, kHardswish>());
  if (activation == kSilu) use(std::integral_constant<Activation, kSilu>());
}

// Of many numbers: their mean, and the sum of the squares of their distances from it.
struct Moments {
  std::vector<double> mean, squares;

  explicit Moments(Index size) : mean(zeros<double>(size)), squares(mean) {}
  // Adds those of `its_count` more to those of `count`. Chan et al., "Updating Formulae and a
  // Pairwise Algorithm for Computing Sample Variances", 1979.
  void add(Index at, Index count, double its_mean, double its_squares, Index its_count) {
    const double all = static_cast<double>(count + its_count);
    const double share = static_cast<double>(its_count) / all, delta = its_mean - mean.data()[at];
    mean.data()[at] += delta * share;
    squares.data()[at] += its_squares + delta * delta * static_cast<double>(count) * share;
  }
};

// Of each lane over the rows of all blocks.
template <typename Real>
Moments lane_moments(const Grid& grid, const Real* partial) {
  Moments lanes(grid.width);
#pragma omp parallel for schedule(static) if (grid.blocks() > kBlock)
  for (Index begin = 0; begin < grid.width; begin += grid.step)
    for (Index block = 0; block < grid.blocks(); ++block) {
      const Index count = std::min(kBlock, grid.rows - block * kBlock);
      const Real *sum = partial + block * 3 * grid.width, *squares = sum + grid.width,
                 *shift = squares + grid.width;
      for (Index i = begin; i < begin + grid.step; ++i) {
        const double d = double{sum[i]} / static_cast<double>(count);
        lanes.add(i, block * kBlock, double{shift[i]} + d,
                  std::max(double{squares[i]} - double{sum[i]} * d, 0.), count);
      }
    }
  return lanes;
}

template <typename Real>
Moments channel_moments(const Grid& grid, const Real* partial) {
  const Moments lanes = lane_moments(grid, partial);
  Moments channels(grid.channels);
  if (grid.rows > 0)
    grid.each_number([&](Index number, Index lane, Index c) {
      channels.add(c, number / grid.channels * grid.rows, lanes.mean.data()[lane],
                   lanes.squares.data()[lane], grid.rows);
    });
  const Real* const left = partial + (grid.blocks() * 3 + 2) * grid.width;
  grid.each_number([&](Index number, Index lane, Index c) {
    if (number < grid.left)
      channels.add(c, grid.copies * grid.rows + number / grid.channels, double{left[lane]}, 0, 1);
  });
  return channels;
}

}  // namespace

std::size_t num_bit_bytes(const NormMaps& maps) {
  const Grid grid(maps, num_lanes(maps.type));
  return static_cast<std::size_t>(grid.words() + grid.width) *
         (maps.type == MapType::kFloat64 ? sizeof(double) : sizeof(float));
}

void mean_and_scale(const NormMaps& maps, const void* x, const NormStatistics& of) {
  with_type(maps.type, [&](auto number) {
    using Real = Computed<decltype(number)>;
    Work<decltype(number)> work(maps);
    work.set_maps(x, nullptr, nullptr);
    const Real* const partial = work.keep_sums();
    work.template run<Statistics>(false);
    const Moments moments = channel_moments(work.grid(), partial);
    const auto count = static_cast<double>(maps.rows);
    const auto move = [&](void* running, Index c, double to) {
      if (running == nullptr) return;
      Real& value = static_cast<Real*>(running)[c];
      value = static_cast<Real>((1 - of.momentum) * double{value} + of.momentum * to);
    };
    for (Index c = 0; c < maps.channels; ++c) {
      const double mean = moments.mean.data()[c], squares = moments.squares.data()[c];
      static_cast<Real*>(of.mean)[c] = static_cast<Real>(mean);
      static_cast<Real*>(of.scale)[c] =
          static_cast<Real>(1 / std::sqrt(squares / count + of.epsilon));
      move(of.running_mean, c, mean);
      move(of.running_variance, c, squares / (count - 1));
    }
  });
}

void normalize(const NormMaps& maps, const NormChannels& of, Activation activation, const void* x,
               const void* added, void* y, void* bits) {
  with_type(maps.type, [&](auto number) {
    using Number = decltype(number);
    Work<Number> work(maps, of);
    work.set_maps(x, added, y);
    work.pass().bits = static_cast<typename Work<Number>::Word*>(bits);
    with_activation(activation, [&](auto which) {
      if (added == nullptr)
        work.template run<Normalize<which(), false>>(true);
      else if constexpr (which() == Activation::kNone || which() == Activation::kRelu)
        work.template run<Normalize<which(), true>>(true);
    });
  });
}

void gradient_sums(const NormMaps& maps, const NormChannels& of, Activation activation,
                   const void* x, const void* dy, const void* bits, void* du, void* sums) {
  with_type(maps.type, [&](auto number) {
    using Number = decltype(number);
    using Real = Computed<Number>;
    Work<Number> work(maps, of);
    const Grid& grid = work.grid();
    work.set_maps(x, dy, du);
    work.pass().bits = static_cast<typename Work<Number>::Word*>(const_cast<void*>(bits));
    const Real* const partial = work.keep_sums();
    if (bits != nullptr)
      work.template run<Sums<Activation::kRelu, true>>(false);
    else
      with_activation(activation,
                      [&](auto which) { work.template run<Sums<which(), false>>(false); });
    auto lanes = zeros<double>(2 * grid.width), channels = zeros<double>(2 * grid.channels);
    for (Index block = 0; block <= grid.blocks(); ++block)
      for (Index i = 0; i < 2 * grid.width; ++i)
        lanes.data()[i] += double{partial[block * 3 * grid.width + i]};
    grid.each_number([&](Index, Index lane, Index c) {
      channels.data()[c] += lanes.data()[lane];
      channels.data()[grid.channels + c] += lanes.data()[grid.width + lane];
    });
    std::transform(channels.begin(), channels.end(), static_cast<Real*>(sums),
                   [](double sum) { return static_cast<Real>(sum); });
  });
}

void input_gradient(const NormMaps& maps, const NormChannels& of, const void* means,
                    Activation activation, const void* x, const void* dy, void* dx) {
  with_type(maps.type, [&](auto number) {
    using Real = Computed<decltype(number)>;
    Work<decltype(number)> work(maps, of);
    work.set_maps(x, dy, dx);
    if (means == nullptr)
      return with_activation(
          activation, [&](auto which) { work.template run<InputGradient<which(), true>>(true); });
    const auto in = [](const void* array, Index c) { return static_cast<const Real*>(array)[c]; };
    work.pass().slope = work.keep([&](Index c) {
      const Real scale = in(of.scale, c);
      return -scale * scale * scale * in(of.weight, c) * in(means, maps.channels + c);
    });
    work.pass().offset =
        work.keep([&](Index c) { return -in(of.scale, c) * in(of.weight, c) * in(means, c); });
    with_activation(activation,
                    [&](auto which) { work.template run<InputGradient<which(), false>>(true); });
  });
}

}  // namespace kiln
