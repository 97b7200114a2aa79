// Finds images that look unlike the others of their class, judged by a network's features.
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
  double distance = 0;  // mean of 1 - cosine similarity to its neighbors; 0 to 2
  double usual = 0;     // the median distance in its class
  double extent = 0;    // interquartile ranges of its class above the upper quartile
};

// The neighbors of an image are the kNeighbors nearest images of its class, or all others if the
// class is smaller. In a class of more than kMaxNeighborsSought images, they are searched among
// that many, evenly spaced.
constexpr std::size_t kNeighbors = 10, kMaxNeighborsSought = 2000;
// Smaller classes have no outliers: there are too few images to tell.
constexpr std::size_t kFewestOfClass = 8;

// The images whose distance lies more than three interquartile ranges above the upper quartile of
// their class (Tukey's "far out"), farthest first. Takes time N * n * D for classes of n images, on
// one thread; about a second for 2,000 images per class and 512 features.
std::vector<Outlier> find_outliers(const FeatureRows& images);

// The mean distances used to find outliers, [N]; 0 for the only image of a class.
std::vector<float> neighbor_distances(const FeatureRows& images);

}  // namespace kiln
