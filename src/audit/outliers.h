// Images that look like no other of their class, by the features that a network sees in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

struct FeatureRows {
  std::span<const float> features;       // [N, D], row by row
  std::span<const std::int32_t> labels;  // [N], from 0 to num_classes - 1
  std::size_t num_features = 0;
  std::size_t num_classes = 0;
};

struct Outlier {
  std::uint32_t image = 0;
  double distance = 0;  // to its neighbors: 1 - cosine, their mean; 0 to 2
  double usual = 0;     // the median of its class
  double extent = 0;    // how many interquartile ranges of its class above the upper quartile
};

// The neighbors of an image are the kNeighbors nearest of its class, or all others of a smaller
// one; of a class of more than kMostNeighborsSought they are sought among so many, evenly taken.
constexpr std::size_t kNeighbors = 10, kMostNeighborsSought = 2000;
// Classes of fewer images have no outliers: there are too few to tell.
constexpr std::size_t kFewestOfClass = 8;

// Those whose distance lies more than three interquartile ranges above the upper quartile of their
// class (Tukey's "far out"), the farthest first. Takes time N * n * D for classes of n images, one
// thread; 2,000 images of a class and 512 features: about a second.
std::vector<Outlier> find_outliers(const FeatureRows& images);

// The mean distances by which they are judged, [N]; 0 for the only image of a class.
std::vector<float> neighbor_distances(const FeatureRows& images);

}  // namespace kiln
