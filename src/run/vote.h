// What the ranks exchange between steps, in a single all-reduce.
#pragma once

#include <deque>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "parallel/ranks/world.h"
#include "record/training_record.h"

namespace kiln {

// Before vote() this rank's values, afterwards those of all ranks combined. All ranks must pass the
// same number of `numbers`.
struct Vote {
  int stop_signal = 0;          // received, one of kStopSignals; 0: none
  bool has_bad_images = false;  // found and not reported yet
  bool has_diverged = false;    // a loss was not finite
  bool wants_checkpoint = false;
  bool is_out_of_time = false;       // no further step is made
  bool has_ended = false;            // the epoch's images come from a stream, which has ended
  std::vector<double> numbers = {};  // summed over the ranks
};

// This rank's vote: whether it received a stop signal, and whether it has new bad images.
Vote ballot(bool has_bad_images, std::vector<double> numbers = {});

// A collective: one all-reduce.
Vote vote(World& world, const Vote& mine);

// Converts a vote to values that can be summed, and back. The resulting stop signal is the first of
// kStopSignals that any rank received.
std::vector<double> to_values(const Vote& vote);
Vote to_vote(const std::vector<double>& sums);

// Votes that a rank does not wait for at once, so that it can be up to `max_lag` steps ahead of the
// slowest rank. All ranks act on a vote after the same step. One thread.
class DelayedVotes {
 public:
  DelayedVotes(World& world, int max_lag) : world_(world), max_lag_(max_lag) {}

  void cast(const Vote& mine) { under_way_.push_back(world_.start_sum(to_values(mine))); }
  // Whether more than `max_lag` votes are in flight: the oldest must be taken before the next step.
  bool is_due() const { return under_way_.size() > max_lag_; }
  bool is_empty() const { return under_way_.empty(); }
  // Waits until all ranks have cast the oldest vote, and returns it.
  Vote take();

 private:
  World& world_;
  const std::size_t max_lag_;
  std::deque<World::SumUnderWay> under_way_;
};

// The values of a record that are summed over ranks, in order.
void visit_sums(Is<Totals> auto& totals, auto&& visit) {
  visit(totals.loss_sum);
  visit(totals.top1);
  visit(totals.top5);
  visit(totals.count);
}

void visit_sums(Is<StepRecord> auto& record, auto&& visit) {
  visit_sums(record.batch, visit);
  visit_sums(record.so_far, visit);
  visit(record.batch_images_per_second);
  visit(record.epoch_images_per_second);
}

// Those of its training half.
void visit_sums(Is<EpochRecord> auto& record, auto&& visit) {
  visit_sums(record.train, visit);
  visit(record.average_images_per_second);
  visit(record.train_images_per_second);
}

std::vector<double> summed_numbers(const auto& record) {
  std::vector<double> numbers;
  visit_sums(record, [&](const auto& value) { numbers.push_back(static_cast<double>(value)); });
  return numbers;
}

void set_summed_numbers(const std::vector<double>& sums, auto& record) {
  std::size_t next = 0;
  visit_sums(record, [&](auto& value) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(sums.at(next++));
  });
}

}  // namespace kiln
