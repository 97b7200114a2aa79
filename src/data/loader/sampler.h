// Which images an epoch has, and which of them each rank: N ranks together see the same images as a
// single rank would. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

struct Shard {
  int rank = 0;
  int num_ranks = 1;
  int batch_size = 1;        // images per batch of one rank
  int batches_per_step = 1;  // batches per step (gradient accumulation)

  std::int64_t images_per_step() const {  // over all ranks
    return std::int64_t{num_ranks} * batch_size * batches_per_step;
  }
};

// Each global batch is the next num_ranks * batch_size entries of `order`, and each rank takes its
// slice. Images left over after the last full step of all ranks are dropped. A rank beyond
// num_ranks gets none.
inline std::vector<std::uint32_t> training_indices(const std::vector<std::uint32_t>& order,
                                                   const Shard& shard) {
  const auto batch = static_cast<std::size_t>(shard.batch_size);
  const std::size_t global_batch = batch * static_cast<std::size_t>(shard.num_ranks);
  const auto step = static_cast<std::size_t>(shard.images_per_step());
  const std::size_t used = order.size() / step * step;
  std::vector<std::uint32_t> mine;
  if (shard.rank >= shard.num_ranks) return mine;
  mine.reserve(used / static_cast<std::size_t>(shard.num_ranks));
  for (std::size_t begin = shard.rank * batch; begin < used; begin += global_batch) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
    mine.insert(mine.end(), first, first + static_cast<std::ptrdiff_t>(batch));
  }
  return mine;
}

// Every num_ranks-th of `count` images, starting at `rank`; each image belongs to exactly one rank.
inline std::vector<std::uint32_t> validation_indices(std::uint32_t count, const Shard& shard) {
  std::vector<std::uint32_t> mine;
  for (auto i = static_cast<std::uint32_t>(shard.rank); i < count; i += shard.num_ranks)
    mine.push_back(i);
  return mine;
}

struct SampledOrder {
  std::vector<std::uint32_t> order;    // indices into the samples
  std::vector<std::uint32_t> repeats;  // how often each one came earlier in the epoch
};

// The images of an epoch with equally many of every class: `count` images in random order. Over all
// epochs of `count` images, the numbers of draws of any two classes differ by at most 1. Each class
// is drawn in shuffled passes that continue from epoch to epoch: no image is repeated before all
// others of its class have been drawn. Classes without images and labels below 0 are left out.
// `epoch` counts from 1.
SampledOrder balanced_order(std::span<const std::int32_t> labels, std::size_t count,
                            std::uint64_t seed, std::uint64_t epoch);

}  // namespace kiln
