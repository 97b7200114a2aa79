// Finds images that show the same picture in other sizes, formats and qualities.
//
// Two prints of each image: 63 bits that say which of its lowest frequencies are above their median
// (Zauner, "Implementation and benchmarking of perceptual image hash functions", 2010), and a
// thumbnail. Bits find candidates without comparing all pairs (multi-index hashing: Norouzi,
// Punjani and Fleet, "Fast search in Hamming space with multi-index hashing", CVPR 2012);
// thumbnails decide. Pictures that are cropped, turned, mirrored or recolored are not found, nor
// are nearly empty ones, which all look alike.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/image/image.h"

namespace kiln {

struct LookPrint {
  static constexpr int kSide = 8;

  bool is_empty = true;    // no print, or an image with next to nothing in it
  std::uint64_t bits = 0;  // differ in few places in images that look alike
  int side = 0;            // the shorter one of the image, in pixels
  double contrast = 0;     // standard deviation of the thumbnail's samples
  std::array<std::uint8_t, 3 * kSide* kSide> thumbnail = {};  // RGB, [8, 8, 3]
};

// Of an image of any size. Pure.
LookPrint look_of(const Image& image);

// Whether both show the same picture: the bits differ in at most kMostBits places, and the
// thumbnails by little, measured against their own contrast and the images' sizes.
constexpr int kMostBits = 11;
bool look_alike(const LookPrint& a, const LookPrint& b);

using ImagePair = std::pair<std::uint32_t, std::uint32_t>;

// Pairs that look alike, each the lower number first, in the order of the second. Of images that
// all look alike the pairs are as many as connect them, one fewer than images; so they tell which
// belong together. No pair within reach of look_alike() is missed; 20,000 photos of different
// things take a fraction of a second on one thread.
std::vector<ImagePair> near_duplicates(const std::vector<LookPrint>& looks);

}  // namespace kiln
