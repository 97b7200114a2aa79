// What the ranks exchange between steps: one all-reduce for all of it.
#pragma once

#include <deque>
#include <vector>

#include "base/training_record.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Before vote(): this rank's values. Afterwards: the combined values of all ranks. All ranks pass
// the same number of `numbers`.
struct Vote {
  int stop_signal = 0;          // received, one of kStopSignals; 0: none
  bool has_bad_images = false;  // not reported yet
  bool has_diverged = false;    // a loss was not finite
  bool wants_checkpoint = false;
  bool is_out_of_time = false;       // no step follows
  bool has_ended = false;            // the stream of the epoch's images, if it is one
  std::vector<double> numbers = {};  // summed over the ranks
};

// This rank's vote: whether it received a stop signal, and whether it has new bad images.
Vote ballot(bool has_bad_images, std::vector<double> numbers = {});

// A collective: one all-reduce.
Vote vote(World& world, const Vote& mine);

// A vote as summable values, and back; the stop signal is the first of kStopSignals that any rank
// received.
std::vector<double> to_values(const Vote& vote);
Vote to_vote(const std::vector<double>& sums);

// Votes for which a rank does not wait at once, so that it may be `delay` steps ahead of the
// slowest rank, and no more. All ranks act on a vote after the same step. One thread.
class DelayedVotes {
 public:
  DelayedVotes(World& world, int delay) : world_(world), delay_(static_cast<std::size_t>(delay)) {}

  void cast(const Vote& mine) { under_way_.push_back(world_.start_sum(to_values(mine))); }
  // More than `delay` are under way: the next step waits for the oldest.
  bool is_due() const { return under_way_.size() > delay_; }
  bool is_empty() const { return under_way_.empty(); }
  // The oldest, when all ranks have cast it.
  Vote take();

 private:
  World& world_;
  const std::size_t delay_;
  std::deque<World::SumUnderWay> under_way_;
};

// The values of a record that are summed over ranks, and back.
std::vector<double> summed_numbers(const Totals& totals);
std::vector<double> summed_numbers(const StepRecord& record);
std::vector<double> summed_numbers(const EpochRecord& record);  // its training half
void set_summed_numbers(const std::vector<double>& sums, Totals& totals);
void set_summed_numbers(const std::vector<double>& sums, StepRecord& record);
void set_summed_numbers(const std::vector<double>& sums, EpochRecord& record);

}  // namespace kiln
