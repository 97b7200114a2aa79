#include "run/vote.h"

#include <gtest/gtest.h>

#include <csignal>

namespace kiln {
namespace {

// What a sum over ranks with these votes comes to.
Vote sum_of(const std::vector<Vote>& votes) {
  std::vector<double> sums(to_values(votes.front()).size());
  for (const Vote& vote : votes) {
    const std::vector<double> values = to_values(vote);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  return to_vote(sums);
}

TEST(Vote, OfSilentRanksIsSilent) {
  const Vote all = sum_of({{}, {}, {}});
  EXPECT_EQ(all.stop_signal, 0);
  EXPECT_FALSE(all.has_bad_images);
  EXPECT_FALSE(all.has_diverged);
  EXPECT_FALSE(all.wants_checkpoint);
  EXPECT_FALSE(all.is_out_of_time);
  EXPECT_TRUE(all.numbers.empty());
}

TEST(Vote, WhatOneRankSaysAllHear) {
  EXPECT_EQ(sum_of({{}, {.stop_signal = SIGUSR1}}).stop_signal, SIGUSR1);
  EXPECT_EQ(sum_of({{}, {.stop_signal = SIGHUP}}).stop_signal, SIGHUP);
  EXPECT_TRUE(sum_of({{.has_bad_images = true}, {}, {}}).has_bad_images);
  EXPECT_TRUE(sum_of({{}, {.has_diverged = true}}).has_diverged);
  EXPECT_TRUE(sum_of({{.wants_checkpoint = true}, {}}).wants_checkpoint);
  EXPECT_TRUE(sum_of({{.is_out_of_time = true}, {}}).is_out_of_time);
}

TEST(Vote, OfSeveralSignalsOneIsActedOn) {
  const Vote all = sum_of({{.stop_signal = SIGUSR1},
                           {.stop_signal = SIGINT},
                           {.stop_signal = SIGTERM},
                           {.stop_signal = SIGTERM}});
  EXPECT_EQ(all.stop_signal, SIGTERM);
}

TEST(Vote, SumsTheNumbersOfAPrintedStep) {
  StepRecord mine;
  mine.batch = {.loss_sum = 1.5, .top1 = 2, .top5 = 3, .count = 4};
  mine.so_far = {.loss_sum = 2.5, .top1 = 5, .top5 = 6, .count = 8};
  mine.batch_images_per_second = 10;
  mine.epoch_images_per_second = 20;
  StepRecord all = mine;
  set_summed_numbers(
      sum_of({{.numbers = summed_numbers(mine)}, {.numbers = summed_numbers(mine)}}).numbers, all);
  EXPECT_EQ(all.batch.loss_sum, 3);
  EXPECT_EQ(all.batch.top1, 4);
  EXPECT_EQ(all.so_far.top5, 12);
  EXPECT_EQ(all.so_far.count, 16);
  EXPECT_EQ(all.batch_images_per_second, 20);
  EXPECT_EQ(all.epoch_images_per_second, 40);
  EXPECT_EQ(all.step, mine.step) << "the same on all ranks, so it is not summed";
}

TEST(Vote, SumsTheNumbersOfAnEpoch) {
  EpochRecord mine;
  mine.train = {.loss_sum = 1, .top1 = 2, .top5 = 3, .count = 4};
  mine.average_images_per_second = 5;
  mine.train_images_per_second = 6;
  EpochRecord all;
  set_summed_numbers(summed_numbers(mine), all);
  EXPECT_EQ(all.train.count, 4);
  EXPECT_EQ(all.average_images_per_second, 5);
  EXPECT_EQ(all.train_images_per_second, 6);
}

}  // namespace
}  // namespace kiln
