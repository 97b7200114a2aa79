// Which images a rank takes, so that N ranks see together what one would: a pure function of the
// order and the rank.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

struct Shard {
  int rank = 0;
  int num_ranks = 1;
  int batch_size = 1;        // images a rank takes at once
  int batches_per_step = 1;  // that make one step (gradient accumulation)

  std::int64_t images_per_step() const {  // of all ranks
    return std::int64_t{num_ranks} * batch_size * batches_per_step;
  }
};

// The global batch is the next num_ranks * batch_size entries of `order`; a rank takes its slice.
// What does not fill a whole step of all ranks is left out.
inline std::vector<std::uint32_t> training_indices(const std::vector<std::uint32_t>& order,
                                                   const Shard& share) {
  const auto batch = static_cast<std::size_t>(share.batch_size);
  const std::size_t global_batch = batch * static_cast<std::size_t>(share.num_ranks);
  const auto step = static_cast<std::size_t>(share.images_per_step());
  const std::size_t used = order.size() / step * step;
  std::vector<std::uint32_t> mine;
  mine.reserve(used / static_cast<std::size_t>(share.num_ranks));
  for (std::size_t begin = static_cast<std::size_t>(share.rank) * batch; begin < used;
       begin += global_batch) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
    mine.insert(mine.end(), first, first + static_cast<std::ptrdiff_t>(batch));
  }
  return mine;
}

// Every num_ranks-th of `count` images, from `rank` on: every image is one rank's.
inline std::vector<std::uint32_t> validation_indices(std::uint32_t count, const Shard& share) {
  std::vector<std::uint32_t> mine;
  for (auto i = static_cast<std::uint32_t>(share.rank); i < count;
       i += static_cast<std::uint32_t>(share.num_ranks))
    mine.push_back(i);
  return mine;
}

}  // namespace kiln
