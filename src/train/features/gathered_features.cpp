#include "train/features/gathered_features.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace kiln {
namespace {

constexpr std::int64_t kPieceBytes = 8 << 20;  // sent by each rank at a time

// The bytes of rows [begin, end), or fewer if `rows` ends earlier.
std::string bytes_of(const at::Tensor& rows, std::int64_t begin, std::int64_t end) {
  if (!rows.defined() || begin >= rows.size(0)) return {};
  const at::Tensor part = rows.narrow(0, begin, std::min(end, rows.size(0)) - begin).contiguous();
  return {static_cast<const char*>(part.const_data_ptr()), part.nbytes()};
}

// Gathers the rows of all ranks on rank 0, in rank order. They are sent in pieces, to keep messages
// small.
at::Tensor gathered_rows(World& world, const at::Tensor& mine, std::int64_t width) {
  const std::vector<std::int64_t> counts = world.gather(mine.defined() ? mine.size(0) : 0);
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t longest = *std::max_element(counts.begin(), counts.end());
  at::Tensor all;
  if (world.leads()) all = at::empty({total, width});
  const std::int64_t piece =
      std::max<std::int64_t>(1, kPieceBytes / (width * static_cast<std::int64_t>(sizeof(float))));
  for (std::int64_t begin = 0; begin < longest; begin += piece) {
    const auto parts = world.gather_on_rank_0(bytes_of(mine, begin, begin + piece));
    std::int64_t first = begin;  // row where the rank's piece goes
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (!parts[rank].empty())
        std::memcpy(all.data_ptr<float>() + first * width, parts[rank].data(), parts[rank].size());
      first += counts[rank];
    }
  }
  return all;
}

}  // namespace

LabeledFeatures gathered_on_rank_0(World& world, LabeledFeatures mine) {
  if (world.size() == 1) return mine;
  const std::vector<std::int64_t> widths =
      world.gather(mine.rows.defined() ? mine.rows.size(1) : 0);
  const std::int64_t width = *std::max_element(widths.begin(), widths.end());
  const auto labels = concatenated(world.gather_on_rank_0(mine.labels));
  const auto samples = concatenated(world.gather_on_rank_0(mine.samples));
  if (width == 0) return {};
  const at::Tensor rows = gathered_rows(world, mine.rows, width);
  if (!world.leads()) return {};
  LabeledFeatures all;
  std::vector<std::int64_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::sort(order, {}, [&](std::int64_t i) { return samples[i]; });
  for (const std::int64_t i : order) {
    all.labels.push_back(labels[i]);
    all.samples.push_back(samples[i]);
  }
  all.rows = rows.index_select(0, at::tensor(order));
  return all;
}

}  // namespace kiln
