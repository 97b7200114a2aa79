// Counter-based random numbers: each value is a pure function of its key, so results do not depend
// on threads or on earlier draws. SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom
// number generators", OOPSLA 2014.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace kiln {

__extension__ using uint128 = unsigned __int128;

constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A sequence determined by a key such as {seed, epoch}: equal keys give equal sequences on every
// machine.
class RandomSequence {
 public:
  RandomSequence(std::initializer_list<std::uint64_t> key) {
    for (const std::uint64_t part : key) state_ = splitmix64(state_ ^ part);
  }
  std::uint64_t next() { return splitmix64(state_ + 0x9e3779b97f4a7c15ULL * counter_++); }
  // Uniform in [0, n), n > 0; Lemire's multiply-shift (bias below n / 2^64).
  std::uint64_t below(std::uint64_t n) { return (static_cast<uint128>(next()) * n) >> 64; }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_ = 0;
  std::uint64_t counter_ = 0;
};

// A permutation of 0..n-1 by Fisher-Yates.
inline std::vector<std::uint32_t> permutation(std::uint32_t n, RandomSequence random) {
  std::vector<std::uint32_t> order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  for (std::uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace kiln
