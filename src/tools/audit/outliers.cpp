#include "tools/audit/outliers.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kiln {
namespace {

// The number of images that are compared with a query at once. The inner loop runs over them, so
// that it can be vectorized without changing the order of any sum.
constexpr std::size_t kLane = 32;
constexpr double kFarOut = 3, kLeastRange = 1e-3;

using Rows = std::vector<std::uint32_t>;

std::vector<Rows> rows_by_class(const FeatureRows& images) {
  std::vector<Rows> rows(images.num_classes);
  for (std::size_t i = 0; i < images.labels.size(); ++i)
    rows[static_cast<std::size_t>(images.labels[i])].push_back(static_cast<std::uint32_t>(i));
  return rows;
}

std::span<const float> row_of(const FeatureRows& images, std::uint32_t i) {
  return images.features.subspan(i * images.num_features, images.num_features);
}

float inverse_length(std::span<const float> row) {
  double sum = 0;
  for (const float value : row) sum += static_cast<double>(value) * value;
  return sum > 0 ? static_cast<float>(1 / std::sqrt(sum)) : 0;
}

Rows evenly_taken(const Rows& rows) {
  if (rows.size() <= kMaxNeighborsSought) return rows;
  Rows taken(kMaxNeighborsSought);
  for (std::size_t i = 0; i < taken.size(); ++i) taken[i] = rows[i * rows.size() / taken.size()];
  return taken;
}

// The distances from each query image to the nearest other images: a heap, largest first.
class NearestNeighbors {
 public:
  NearestNeighbors(const FeatureRows& images, const Rows& queries)
      : images_(images), queries_(queries), nearest_(queries.size()) {}

  void look_among(std::span<const std::uint32_t> others) {
    for (; others.size() > kLane; others = others.subspan(kLane))
      look_among_few(others.first(kLane));
    look_among_few(others);
  }

  float mean(std::size_t query) const {
    float sum = 0;
    for (const float distance : nearest_[query]) sum += distance;
    return nearest_[query].empty() ? 0 : sum / static_cast<float>(nearest_[query].size());
  }

 private:
  void look_among_few(std::span<const std::uint32_t> others) {
    lanes_.assign(images_.num_features * kLane, 0);
    for (std::size_t lane = 0; lane < others.size(); ++lane) {
      const std::span<const float> row = row_of(images_, others[lane]);
      const float scale = inverse_length(row);
      for (std::size_t d = 0; d < row.size(); ++d) lanes_[d * kLane + lane] = row[d] * scale;
    }
    for (std::size_t query = 0; query < queries_.size(); ++query) {
      const std::span<const float> row = row_of(images_, queries_[query]);
      std::array<float, kLane> cosines{};
      for (std::size_t d = 0; d < row.size(); ++d)
        for (std::size_t lane = 0; lane < kLane; ++lane)
          cosines[lane] += row[d] * lanes_[d * kLane + lane];
      const float scale = inverse_length(row);
      for (std::size_t lane = 0; lane < others.size(); ++lane)
        if (others[lane] != queries_[query]) keep(nearest_[query], 1 - cosines[lane] * scale);
    }
  }

  static void keep(std::vector<float>& nearest, float distance) {
    if (nearest.size() == kNeighbors) {
      if (distance >= nearest.front()) return;
      std::pop_heap(nearest.begin(), nearest.end());
      nearest.pop_back();
    }
    nearest.push_back(std::max(distance, 0.0F));
    std::push_heap(nearest.begin(), nearest.end());
  }

  const FeatureRows& images_;
  const Rows& queries_;
  std::vector<std::vector<float>> nearest_;
  std::vector<float> lanes_;  // [D, kLane]: features, scaled to length 1
};

double quantile(std::vector<float>& values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

std::vector<float> neighbor_distances(const FeatureRows& images) {
  std::vector<float> distances(images.labels.size());
  for (const Rows& rows : rows_by_class(images)) {
    NearestNeighbors nearest(images, rows);
    nearest.look_among(evenly_taken(rows));
    for (std::size_t i = 0; i < rows.size(); ++i) distances[rows[i]] = nearest.mean(i);
  }
  return distances;
}

std::vector<Outlier> find_outliers(const FeatureRows& images) {
  const std::vector<float> distances = neighbor_distances(images);
  std::vector<Outlier> outliers;
  for (const Rows& rows : rows_by_class(images)) {
    if (rows.size() < kFewestOfClass) continue;
    std::vector<float> own;
    for (const std::uint32_t i : rows) own.push_back(distances[i]);
    const double upper = quantile(own, 0.75), usual = quantile(own, 0.5);
    const double range = std::max(upper - quantile(own, 0.25), kLeastRange);
    for (const std::uint32_t i : rows)
      if (const double extent = (static_cast<double>(distances[i]) - upper) / range;
          extent > kFarOut)
        outliers.push_back({i, static_cast<double>(distances[i]), usual, extent});
  }
  std::stable_sort(outliers.begin(), outliers.end(),
                   [](const Outlier& a, const Outlier& b) { return a.extent > b.extent; });
  return outliers;
}

}  // namespace kiln
