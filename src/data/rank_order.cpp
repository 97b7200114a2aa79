#include "data/rank_order.h"

namespace kiln {

std::vector<std::uint32_t> training_share(const std::vector<std::uint32_t>& order,
                                          const RankShare& share) {
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

std::vector<std::uint32_t> validation_share(std::uint32_t count, const RankShare& share) {
  std::vector<std::uint32_t> mine;
  for (auto i = static_cast<std::uint32_t>(share.rank); i < count;
       i += static_cast<std::uint32_t>(share.num_ranks))
    mine.push_back(i);
  return mine;
}

}  // namespace kiln
