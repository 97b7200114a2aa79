#include "train/features/neighbors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <tuple>

#include "train/features/likeness.h"

namespace kiln {
namespace {

constexpr std::int64_t kRowsAtOnce = 8192;  // 8 MB as float32, which the caches hold

}  // namespace

at::Tensor Neighbors::projected(const at::Tensor& features) const {
  return unit_rows(axes.defined() ? features.mm(axes) : features);
}

at::Tensor Neighbors::nearest(const at::Tensor& features, std::int64_t count) const {
  const at::Tensor queries = projected(features).t().contiguous();
  at::Tensor best, places;  // so far: [count, Q]
  for (std::int64_t begin = 0; begin < rows.size(0); begin += kRowsAtOnce) {
    const std::int64_t size = std::min(kRowsAtOnce, rows.size(0) - begin);
    const at::Tensor some = rows.narrow(0, begin, size).to(at::kFloat).mm(queries);
    auto [near, where] = some.topk(std::min(count, size), 0);
    where += begin;
    best = best.defined() ? at::cat({best, near}) : near;
    places = places.defined() ? at::cat({places, where}) : where;
    std::tie(best, where) = best.topk(std::min(count, best.size(0)), 0);
    places = places.gather(0, where);
  }
  return places.t();
}

Neighbors neighbors_of(const at::Tensor& features) {
  Neighbors neighbors;
  if (features.size(1) > kNeighborAxes)
    neighbors.axes = main_axes(unit_rows(features), kNeighborAxes).to(at::kHalf).to(at::kFloat);
  neighbors.rows = neighbors.projected(features).to(at::kHalf);
  return neighbors;
}

}  // namespace kiln
