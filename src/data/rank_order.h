// Which images a rank takes, so that N ranks see together what one would: a pure function of the
// order and the rank.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

struct RankShare {
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
std::vector<std::uint32_t> training_share(const std::vector<std::uint32_t>& order,
                                          const RankShare& share);

// Every num_ranks-th of `count` images, from `rank` on: every image is one rank's.
std::vector<std::uint32_t> validation_share(std::uint32_t count, const RankShare& share);

}  // namespace kiln
