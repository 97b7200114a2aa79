// Run by mpirun: what a vote costs, in collectives that every rank waits for.
#include <gtest/gtest.h>

#include <csignal>

#include "parallel/rank_main.h"
#include "run/vote.h"

namespace kiln {
namespace {

World* world = nullptr;

// Collectives that `work` starts on this rank.
template <typename Work>
std::uint64_t rounds_of(Work&& work) {
  const std::uint64_t before = world->num_rounds();
  work();
  return world->num_rounds() - before;
}

TEST(VoteRounds, AStepThatIsPrintedTakesOne) {
  StepRecord record;
  record.so_far = {.loss_sum = 2, .top1 = 1, .top5 = 1, .count = 1};
  Vote all;
  EXPECT_EQ(rounds_of([&] { all = vote(*world, ballot(false, summed_numbers(record))); }), 1u);
  set_summed_numbers(all.numbers, record);
  EXPECT_EQ(record.so_far.count, world->size());
}

TEST(VoteRounds, AnyOtherStepTakesOne) {
  Vote all;
  EXPECT_EQ(rounds_of([&] { all = vote(*world, {.has_bad_images = world->rank() == 1}); }), 1u);
  EXPECT_TRUE(all.has_bad_images);
  EXPECT_EQ(all.stop_signal, 0);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::Log log;
  kiln::World the_world;
  if (!kiln::join_ranks(argc, argv, 120, log, the_world)) return 2;
  kiln::world = &the_world;
  return the_world.leave(RUN_ALL_TESTS());
}
