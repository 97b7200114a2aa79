// The kernels of norm_kernels.h. A thread owns 16 bytes of neighboring channels and walks over
// rows. Statistics are sums shifted by the thread's first value, then Chan's merging of (count,
// mean, M2): Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
// Variances", 1979. The order depends on the launch alone. The last block of a tile to end merges
// what all its blocks have found, which saves a launch.
//
// NVRTC compiles this file when Kiln is built (cmake/compile_kernels.py), and for tests a C++
// compiler with tests/gpu/fake/emulated.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "modules/cuda/norm_kernels.h"

namespace kiln {

constexpr int kThreads = 256;  // of a block, at most

// What is computed with, for each type of maps.
__device__ float wide(float);
__device__ float wide(__half);
__device__ float wide(__nv_bfloat16);
__device__ double wide(double);
template <typename T>
using WideOf = decltype(wide(T()));

template <typename T>
constexpr int kWidth = 16 / sizeof(T);
template <typename T>
struct alignas(16) Vector {
  T at[kWidth<T>];
};
template <typename T>
__device__ inline Vector<T>* vectors_of(void* map) {
  return static_cast<Vector<T>*>(map);
}

// A thread's column of vectors and its rows: `first`, and `count - 1` more, `step` apart.
struct Place {
  NormIndex vector, vectors, first, step, count;
  __device__ explicit Place(const NormArguments& g)
      : vector(blockIdx.x * blockDim.x + threadIdx.x),
        vectors(g.vectors),
        first(blockIdx.y * blockDim.y + threadIdx.y),
        step(gridDim.y * blockDim.y),
        count(first < g.rows ? (g.rows - first + step - 1) / step : 0) {}
  __device__ bool has_channels() const { return vector < vectors; }
};

// Of W channels: mean and sum of squared deviations of `count` values, or two plain sums. Its size
// spreads neighbors in shared memory over the banks.
template <typename A, int W, bool kMerges>
struct Pair {
  A first[W], second[W], count;
  __device__ void add(const Pair& other) {
    const A total = count + other.count, share = total > 0 ? other.count / total : A(0);
    for (int j = 0; j < W; ++j) {
      const A delta = other.first[j] - first[j];
      first[j] += kMerges ? delta * share : other.first[j];
      second[j] += other.second[j] + (kMerges ? delta * delta * count * share : A(0));
    }
    count = total;
  }
};

// Adds the pairs of a block's threads in the same column: the sum is in the threads with y = 0. A
// barrier must lie between two calls.
template <typename P>
__device__ void add_over_rows(P& mine) {
  __shared__ P pairs[kThreads];
  const int self = threadIdx.y * blockDim.x + threadIdx.x, y = threadIdx.y;
  for (int n = blockDim.y; n > 1;) {
    const int half = (n + 1) / 2;
    if (y >= half && y < n) pairs[self] = mine;
    __syncthreads();
    if (y + half < n) mine.add(pairs[self + half * blockDim.x]);
    n = half;
  }
}

// True in all threads of the block of a tile that is the last to come here; what the others have
// written before is then visible.
__device__ inline bool is_last_block(const NormArguments& g) {
  __threadfence();
  __syncthreads();
  __shared__ bool is_last;
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    is_last = atomicAdd(&g.tickets[blockIdx.x], 1u) == gridDim.y - 1;
    if (is_last) g.tickets[blockIdx.x] = 0;  // for the next launch
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

// Adds the pairs of all blocks of a tile. True in the threads of one block that hold the sum.
template <typename P>
__device__ bool add_over_blocks(P& mine, const Place& place, const NormArguments& g) {
  add_over_rows(mine);
  P* const all = static_cast<P*>(g.partial) + place.vector;  // [blocks, vectors]
  if (threadIdx.y == 0 && place.has_channels()) all[blockIdx.y * place.vectors] = mine;
  if (!is_last_block(g)) return false;
  mine = {};
  for (NormIndex block = threadIdx.y; block < gridDim.y && place.has_channels();
       block += blockDim.y)
    mine.add(all[block * place.vectors]);
  add_over_rows(mine);
  return threadIdx.y == 0 && place.has_channels();
}

// Calls use(the vector's index, a's, b's) for the thread's rows, with kAtOnce loads of each map in
// flight; b may be null. From the last row to the first if kReversed, since what the pass before
// has read last is still in the L2 cache.
template <int kAtOnce, bool kReversed, typename V, typename Use>
__device__ void each_row(const Place& place, const V* a, const V* b, Use&& use) {
  const NormIndex stride = (kReversed ? 0 - place.step : place.step) * place.vectors;  // mod 2^32
  NormIndex at = (place.first + (kReversed ? (place.count - 1) * place.step : 0)) * place.vectors +
                 place.vector;
  for (NormIndex left = place.count; left > 0; left -= left < kAtOnce ? left : kAtOnce) {
    V as[kAtOnce] = {}, bs[kAtOnce] = {};
#pragma unroll
    for (NormIndex k = 0; k < kAtOnce; ++k) {
      if (k < left) as[k] = a[at + k * stride];
      if (k < left && b) bs[k] = b[at + k * stride];
    }
#pragma unroll
    for (NormIndex k = 0; k < kAtOnce; ++k)
      if (k < left) use(at + k * stride, as[k], bs[k]);
    at += kAtOnce * stride;
  }
}

// Writes mean and scale; updates the running statistics.
template <typename T>
__device__ void statistics(const NormArguments& g) {
  using A = WideOf<T>;
  using V = Vector<T>;
  constexpr int W = kWidth<T>;
  const Place place(g);
  Pair<A, W, true> mine = {};
  A origin[W];  // first values: means relative to them lose nothing to numbers far from zero
  if (place.has_channels()) {
    const V* const x = vectors_of<T>(g.x);
    const V start = x[(place.count > 0 ? place.first * g.vectors : 0) + place.vector];
    const V zeroth = x[place.vector];
    for (int j = 0; j < W; ++j) origin[j] = A(zeroth.at[j]);
    each_row<4, false>(place, x, static_cast<const V*>(nullptr), [&](NormIndex, V v, V) {
      for (int j = 0; j < W; ++j) {
        const A d = A(v.at[j]) - A(start.at[j]);
        mine.first[j] += d;
        mine.second[j] = fma(d, d, mine.second[j]);
      }
    });
    mine.count = A(place.count);
    for (int j = 0; j < W && place.count > 0; ++j) {
      const A d = mine.first[j] / mine.count, m2 = mine.second[j] - mine.first[j] * d;
      mine.first[j] = A(start.at[j]) - origin[j] + d;
      mine.second[j] = m2 < 0 ? A(0) : m2;
    }
  }
  if (!add_over_blocks(mine, place, g)) return;
  for (int j = 0; j < W; ++j) {
    const NormIndex c = place.vector * W + j;
    const A mean = origin[j] + mine.first[j];
    static_cast<A*>(g.mean)[c] = mean;
    static_cast<A*>(g.scale)[c] = A(1) / sqrt(mine.second[j] / A(g.rows) + A(g.epsilon));
    if (g.running_mean == nullptr) continue;
    A& running_mean = static_cast<A*>(g.running_mean)[c];
    A& running_variance = static_cast<A*>(g.running_variance)[c];
    running_mean += A(g.momentum) * (mean - running_mean);
    running_variance += A(g.momentum) * (mine.second[j] / (A(g.rows) - A(1)) - running_variance);
  }
}

// How backward learns where the ReLU was positive: there is none; from x again, with the same
// rounding; by forward's bits.
enum Positive { kAlways, kAgain, kBits };

// u = (x - m) * a + b
template <typename A, int W>
struct Channels {
  A m[W], a[W], b[W];
  __device__ Channels(const NormArguments& g, NormIndex vector) {
    for (int j = 0; j < W; ++j) {
      const NormIndex c = vector * W + j;
      m[j] = static_cast<A*>(g.mean)[c];
      a[j] = static_cast<A*>(g.scale)[c] * static_cast<A*>(g.weight)[c];
      b[j] = static_cast<A*>(g.bias)[c];
    }
  }
  __device__ A u(A x, int j) const { return fma(x - m[j], a[j], b[j]); }
};

// Writes y to out; kBits: also the bits. NaN counts as positive, so that it stays.
template <typename T, bool kAdds, Positive kPositive>
__device__ void normalize(const NormArguments& g) {
  using A = WideOf<T>;
  using V = Vector<T>;
  const Place place(g);
  if (!place.has_channels()) return;
  const Channels<A, kWidth<T>> of(g, place.vector);
  const V* const added = kAdds ? vectors_of<T>(g.added) : nullptr;
  each_row<2, true>(place, vectors_of<T>(g.x), added, [&](NormIndex at, V v, V z) {
    V y;
    unsigned positive = 0;
    for (int j = 0; j < kWidth<T>; ++j) {
      A value = of.u(A(v.at[j]), j);
      if (kAdds) value += A(z.at[j]);
      if (!(value <= 0)) positive |= 1u << j;
      y.at[j] = T(kPositive != kAlways && value <= 0 ? A(0) : value);
    }
    vectors_of<T>(g.out)[at] = y;
    if (kPositive == kBits) g.bits[at] = static_cast<unsigned char>(positive);
  });
}

// With du the gradient of u, which is dy where y was positive and 0 elsewhere, writes to sums those
// of du, of du * (x - mean), and the latter times scale: the gradients of bias and weight are the
// first and the last. kBits: also writes du to out.
template <typename T, Positive kPositive>
__device__ void sum_gradients(const NormArguments& g) {
  using A = WideOf<T>;
  using V = Vector<T>;
  constexpr int W = kWidth<T>;
  const Place place(g);
  Pair<A, W, false> mine = {};
  if (place.has_channels()) {
    const Channels<A, W> of(g, place.vector);
    each_row<2, false>(
        place, vectors_of<T>(g.x), vectors_of<T>(g.dy), [&](NormIndex at, V v, V dy) {
          const unsigned positive = kPositive == kBits ? g.bits[at] : 0xffu;
          for (int j = 0; j < W; ++j) {
            const A x = A(v.at[j]);
            const bool passes = kPositive == kAgain ? !(of.u(x, j) <= 0) : (positive >> j & 1) != 0;
            if (!passes) dy.at[j] = T(A(0));
            mine.first[j] += A(dy.at[j]);
            mine.second[j] = fma(A(dy.at[j]), x - of.m[j], mine.second[j]);
          }
          if (kPositive == kBits) vectors_of<T>(g.out)[at] = dy;
        });
  }
  if (!add_over_blocks(mine, place, g)) return;
  for (int j = 0; j < W; ++j) {
    const NormIndex c = place.vector * W + j, channels = g.vectors * W;
    A* const sums = static_cast<A*>(g.sums);
    sums[c] = mine.first[j];
    sums[channels + c] = mine.second[j];
    sums[2 * channels + c] = mine.second[j] * static_cast<A*>(g.scale)[c];
  }
}

// dx = scale * weight * (du - sum(du) / count - (x - mean) * scale^2 * sum(du * (x - mean)) /
// count) to out; dy is of y, or with kAlways du.
template <typename T, Positive kPositive>
__device__ void gradient(const NormArguments& g) {
  using A = WideOf<T>;
  using V = Vector<T>;
  constexpr int W = kWidth<T>;
  const Place place(g);
  if (!place.has_channels()) return;
  const Channels<A, W> of(g, place.vector);
  A p[W], q[W];
  for (int j = 0; j < W; ++j) {
    const NormIndex c = place.vector * W + j;
    const A scale = static_cast<A*>(g.scale)[c], share = of.a[j] / A(g.count);
    const A* const sums = static_cast<A*>(g.sums);
    p[j] = sums ? -share * scale * scale * sums[g.vectors * W + c] : A(0);
    q[j] = sums ? -share * sums[c] : A(0);
  }
  each_row<2, true>(place, vectors_of<T>(g.x), vectors_of<T>(g.dy), [&](NormIndex at, V v, V dy) {
    V dx;
    for (int j = 0; j < W; ++j) {
      const A x = A(v.at[j]);
      const A du = kPositive == kAgain && of.u(x, j) <= 0 ? A(0) : A(dy.at[j]);
      dx.at[j] = T(fma(x - of.m[j], p[j], fma(du, of.a[j], q[j])));
    }
    vectors_of<T>(g.out)[at] = dx;
  });
}

// A kernel of each type: its name, so many blocks at a time on a multiprocessor, what it calls.
#define KILN_KERNEL(name, blocks, ...)                           \
  extern "C" __global__ void __launch_bounds__(kThreads, blocks) \
      kiln_##name(const NormArguments g) {                       \
    __VA_ARGS__(g);                                              \
  }
#define KILN_KERNELS(name, blocks, function, ...)                                          \
  KILN_KERNEL(name##_float32, blocks, function<float __VA_OPT__(, ) __VA_ARGS__>)          \
  KILN_KERNEL(name##_float16, blocks, function<__half __VA_OPT__(, ) __VA_ARGS__>)         \
  KILN_KERNEL(name##_bfloat16, blocks, function<__nv_bfloat16 __VA_OPT__(, ) __VA_ARGS__>) \
  KILN_KERNEL(name##_float64, blocks, function<double __VA_OPT__(, ) __VA_ARGS__>)

KILN_KERNELS(statistics, 4, statistics)
KILN_KERNELS(normalize, 3, normalize, false, kAlways)
KILN_KERNELS(normalize_relu, 3, normalize, false, kAgain)
KILN_KERNELS(normalize_add, 3, normalize, true, kAlways)
KILN_KERNELS(normalize_add_relu, 3, normalize, true, kBits)
KILN_KERNELS(sum_gradients, 3, sum_gradients, kAlways)
KILN_KERNELS(sum_gradients_relu, 3, sum_gradients, kAgain)
KILN_KERNELS(sum_gradients_bits, 3, sum_gradients, kBits)
KILN_KERNELS(gradient, 3, gradient, kAlways)
KILN_KERNELS(gradient_relu, 3, gradient, kAgain)

}  // namespace kiln
