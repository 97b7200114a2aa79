#include "run/vote.h"

#include <array>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/system.h"

namespace kiln {
namespace {

// A vote is summed as these flags, then one flag for each of kStopSignals, then the numbers.
constexpr std::array kFlags = {&Vote::has_bad_images, &Vote::has_diverged, &Vote::wants_checkpoint,
                               &Vote::is_out_of_time, &Vote::has_ended};

// The summed values in order, listed once for reading and writing.
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

void visit_sums(Is<EpochRecord> auto& record, auto&& visit) {
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
