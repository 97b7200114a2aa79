// Finds images of the same picture in other sizes, formats and qualities.
//
// Each image gets two fingerprints: 63 bits that say which of its lowest frequencies are above
// their median (Zauner, "Implementation and benchmarking of perceptual image hash functions",
// 2010), and a thumbnail. The bits find candidates without comparing all pairs (multi-index
// hashing: Norouzi, Punjani and Fleet, "Fast search in Hamming space with multi-index hashing",
// CVPR 2012); the thumbnails decide. Pictures that are cropped, rotated, mirrored or recolored are
// not found, nor are nearly empty ones, which all look alike.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "data/image/image.h"

namespace kiln {

struct LookPrint {
  static constexpr int kSide = 8;

  bool is_empty = true;    // no fingerprint, or a nearly empty image
  std::uint64_t bits = 0;  // images that look alike differ in few bits
  int side = 0;            // shorter side of the image, in pixels
  double contrast = 0;     // standard deviation of the thumbnail's samples
  std::array<std::uint8_t, 3 * kSide* kSide> thumbnail = {};  // RGB, [8, 8, 3]
};

// The print of an image of any size. Pure.
LookPrint look_of(const Image& image);

// Whether both show the same picture: their bits differ in at most kMaxBits places, and their
// thumbnails by little, relative to their contrast and to the image sizes.
constexpr int kMaxBits = 11;
bool look_alike(const LookPrint& a, const LookPrint& b);

using ImagePair = std::pair<std::uint32_t, std::uint32_t>;

// Pairs that look alike, each with the lower number first, sorted by the second number. For images
// that all look alike there are only as many pairs as connect them, one fewer than images; so the
// pairs tell which images belong together. No pair that look_alike() accepts is missed. 20,000
// photos of different subjects take a fraction of a second on one thread.
std::vector<ImagePair> near_duplicates(const std::vector<LookPrint>& looks);

// Disjoint sets of the numbers 0 to count - 1.

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
