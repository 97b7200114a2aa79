#include "run/vote.h"

#include <utility>

#include "base/system.h"

namespace kiln {
namespace {

constexpr std::size_t kFirstSignal = 5;
constexpr std::size_t kNumFlags = kFirstSignal + kStopSignals.size();

// The summed values in order, listed once for reading and writing.
void visit_sums(auto& totals, auto&& visit) requires requires {
  totals.loss_sum;
}
{
  visit(totals.loss_sum);
  visit(totals.top1);
  visit(totals.top5);
  visit(totals.count);
}

void visit_sums(auto& record, auto&& visit) requires requires {
  record.so_far;
}
{
  visit_sums(record.batch, visit);
  visit_sums(record.so_far, visit);
  visit(record.batch_images_per_second);
  visit(record.epoch_images_per_second);
}

void visit_sums(auto& record, auto&& visit) requires requires {
  record.valid;
}
{
  visit_sums(record.train, visit);
  visit(record.average_images_per_second);
  visit(record.train_images_per_second);
}

std::vector<double> list_sums(const auto& record) {
  std::vector<double> numbers;
  visit_sums(record, [&](const auto& value) { numbers.push_back(static_cast<double>(value)); });
  return numbers;
}

void set_sums(const std::vector<double>& sums, auto& record) {
  std::size_t next = 0;
  visit_sums(record, [&](auto& value) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(sums.at(next++));
  });
}

}  // namespace

Vote ballot(bool has_bad_images, std::vector<double> numbers) {
  return {.stop_signal = stop_signal(),
          .has_bad_images = has_bad_images,
          .numbers = std::move(numbers)};
}

std::vector<double> to_values(const Vote& vote) {
  std::vector<double> values;
  for (const bool flag : {vote.has_bad_images, vote.has_diverged, vote.wants_checkpoint,
                          vote.is_out_of_time, vote.has_ended})
    values.push_back(flag ? 1.0 : 0.0);
  for (const int signal : kStopSignals) values.push_back(vote.stop_signal == signal ? 1.0 : 0.0);
  values.insert(values.end(), vote.numbers.begin(), vote.numbers.end());
  return values;
}

Vote to_vote(const std::vector<double>& sums) {
  Vote all;
  all.has_bad_images = sums.at(0) > 0;
  all.has_diverged = sums.at(1) > 0;
  all.wants_checkpoint = sums.at(2) > 0;
  all.is_out_of_time = sums.at(3) > 0;
  all.has_ended = sums.at(4) > 0;
  for (std::size_t i = kStopSignals.size(); i-- > 0;)
    if (sums.at(kFirstSignal + i) > 0) all.stop_signal = kStopSignals[i];
  all.numbers.assign(sums.begin() + kNumFlags, sums.end());
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

std::vector<double> summed_numbers(const Totals& totals) {
  return list_sums(totals);
}
std::vector<double> summed_numbers(const StepRecord& record) {
  return list_sums(record);
}
std::vector<double> summed_numbers(const EpochRecord& record) {
  return list_sums(record);
}
void set_summed_numbers(const std::vector<double>& sums, Totals& totals) {
  set_sums(sums, totals);
}
void set_summed_numbers(const std::vector<double>& sums, StepRecord& record) {
  set_sums(sums, record);
}
void set_summed_numbers(const std::vector<double>& sums, EpochRecord& record) {
  set_sums(sums, record);
}

}  // namespace kiln
