// Disjoint sets of the numbers 0 to count - 1.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace kiln {

// The root of a set is its smallest member.
class UnionFind {
 public:
  explicit UnionFind(std::size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), std::uint32_t{0});
  }

  std::uint32_t root_of(std::uint32_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }

  // Returns false if both were in the same set already.
  bool unite(std::uint32_t a, std::uint32_t b) {
    a = root_of(a);
    b = root_of(b);
    parents_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }

 private:
  std::vector<std::uint32_t> parents_;
};

}  // namespace kiln
