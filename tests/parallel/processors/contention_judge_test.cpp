#include "parallel/processors/contention_judge.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace kiln {
namespace {

using std::chrono::seconds;

constexpr ContentionLoad kAlone{.waiting = 0.01, .idle = 0, .others = 0};
constexpr ContentionLoad kBesideOthers{.waiting = 0.4, .idle = 0, .others = 0.5};
constexpr ContentionLoad kOwnWriter{.waiting = 0.3, .idle = 0, .others = 0.02};
// Gathered: the others took the cores that were left, or are bound and stayed.
constexpr ContentionLoad kOthersMoved{.waiting = 0.02, .idle = 0, .others = 0.1};
constexpr ContentionLoad kOthersStayed{.waiting = 0.3, .idle = 0, .others = 0.6};
constexpr ContentionLoad kOthersEnded{.waiting = 0.02, .idle = 1, .others = 0};

struct ContentionJudgeTest : testing::Test {
  // What the threads do after so many half seconds of this load.
  ThreadWait after(int intervals, const ContentionLoad& load) {
    for (int i = 0; i < intervals; ++i) {
      time += std::chrono::milliseconds(500);
      does = judge.next(does, load, time);
    }
    return does;
  }
  ContentionJudge judge{seconds(30)};
  ContentionJudge::Clock::time_point time{seconds(1000)};
  ThreadWait does = ThreadWait::kSpin;
};

TEST_F(ContentionJudgeTest, AloneTheySpin) {
  EXPECT_EQ(after(100, kAlone), ThreadWait::kSpin);
}

TEST_F(ContentionJudgeTest, BesideOthersTheySleepAndGatherAtOnce) {
  EXPECT_EQ(after(1, kBesideOthers), ThreadWait::kSleep);
  EXPECT_EQ(after(1, kBesideOthers), ThreadWait::kGather);
  EXPECT_EQ(after(100, kOthersMoved), ThreadWait::kGather);
  EXPECT_EQ(after(3, kOthersEnded), ThreadWait::kGather);
  EXPECT_EQ(after(1, kOthersEnded), ThreadWait::kSpin);
}

TEST_F(ContentionJudgeTest, AWriterOfTheirOwnChangesNothingForAWhile) {
  EXPECT_EQ(after(3, kOwnWriter), ThreadWait::kSpin);
  EXPECT_EQ(after(1, kAlone), ThreadWait::kSpin);
  EXPECT_EQ(after(3, kOwnWriter), ThreadWait::kSpin);
  EXPECT_EQ(after(1, kOwnWriter), ThreadWait::kSleep);
  EXPECT_EQ(after(100, kOwnWriter), ThreadWait::kSleep) << "gathering would not help";
}

TEST_F(ContentionJudgeTest, BesideBoundProgramsTheySpreadForAWhile) {
  after(2, kBesideOthers);
  int gathered = 0;
  while (after(1, kOthersStayed) == ThreadWait::kGather && gathered < 100) ++gathered;
  EXPECT_GT(gathered, 3) << "one interval tells little";
  EXPECT_LT(gathered, 20);
  EXPECT_EQ(after(59, kBesideOthers), ThreadWait::kSleep);
  EXPECT_EQ(after(1, kBesideOthers), ThreadWait::kGather);
}

TEST_F(ContentionJudgeTest, WhileProcessorsAreIdleTheyDoNotGather) {
  EXPECT_EQ(after(10, {.waiting = 0.4, .idle = 0.3, .others = 0.5}), ThreadWait::kSleep);
}

TEST_F(ContentionJudgeTest, OnlyQuietForTwoSecondsEndsTheSleep) {
  after(1, {.waiting = 0.2, .idle = 0.2, .others = 0.5});
  EXPECT_EQ(after(3, kAlone), ThreadWait::kSleep);
  EXPECT_EQ(after(1, {.waiting = 0.1}), ThreadWait::kSleep);
  EXPECT_EQ(after(3, kAlone), ThreadWait::kSleep);
  EXPECT_EQ(after(1, kAlone), ThreadWait::kSpin);
}

}  // namespace
}  // namespace kiln
