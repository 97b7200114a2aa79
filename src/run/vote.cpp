#include "run/vote.h"

#include <array>
#include <utility>

#include "base/system.h"

namespace kiln {
namespace {

// A vote is summed as these flags, then one flag for each of kStopSignals, then the numbers.
constexpr std::array kFlags = {&Vote::has_bad_images, &Vote::has_diverged, &Vote::wants_checkpoint,
                               &Vote::is_out_of_time, &Vote::has_ended};

}  // namespace

Vote ballot(bool has_bad_images, std::vector<double> numbers) {
  return {.stop_signal = stop_signal(),
          .has_bad_images = has_bad_images,
          .numbers = std::move(numbers)};
}

std::vector<double> to_values(const Vote& vote) {
  std::vector<double> values;
  for (const auto flag : kFlags) values.push_back(vote.*flag ? 1.0 : 0.0);
  for (const int signal : kStopSignals) values.push_back(vote.stop_signal == signal ? 1.0 : 0.0);
  values.insert(values.end(), vote.numbers.begin(), vote.numbers.end());
  return values;
}

Vote to_vote(const std::vector<double>& sums) {
  Vote all;
  for (std::size_t i = 0; i < kFlags.size(); ++i) all.*kFlags[i] = sums.at(i) > 0;
  for (std::size_t i = kStopSignals.size(); i-- > 0;)
    if (sums.at(kFlags.size() + i) > 0) all.stop_signal = kStopSignals[i];
  all.numbers.assign(sums.begin() + kFlags.size() + kStopSignals.size(), sums.end());
  return all;
}

Vote vote(World& world, const Vote& mine) {
  return to_vote(world.sum(to_values(mine)));
}

Vote DelayedVotes::take() {
  const World::SumUnderWay oldest = under_way_.front();
  under_way_.pop_front();
  return to_vote(world_.finish(oldest));
}

}  // namespace kiln
