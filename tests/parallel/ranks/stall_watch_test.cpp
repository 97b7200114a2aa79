#include "parallel/ranks/peer_status.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

const std::vector<std::string> kTwoHosts = {"a", "b"};

struct StallWatchTest : testing::Test {
  std::vector<PeerStatus> peers{2};
  std::vector<std::string> warnings;
  StallWatch stall{{.deadline_s = 10, .stall_warning_s = 3},
                   [this](const std::string& text) { warnings.push_back(text); }};
  void rank_1(std::uint64_t started, bool patient) {
    peers[1] = {started, patient, "loading", std::chrono::steady_clock::now()};
  }
  void judge(double waited) {
    stall.judge("gradient all-reduce", waited, {peers, kTwoHosts, 0, 5}, "training, epoch 1");
  }
};

TEST_F(StallWatchTest, WarnsAtIntervals) {
  rank_1(4, false);
  EXPECT_FALSE(stall.judges(2.9));
  ASSERT_TRUE(stall.judges(3.1));
  judge(3.1);
  EXPECT_EQ(
      warnings.at(0),
      "waiting for 3 s for the gradient all-reduce over all ranks. Missing: rank 1 on host b, "
      "loading.");
  EXPECT_FALSE(stall.judges(6));
  EXPECT_TRUE(stall.judges(6.2));
  stall.begin();
  EXPECT_FALSE(stall.judges(2.9));
}

TEST(SuspensionWatchTest, ALateTurnIsASuspension) {
  using std::chrono::milliseconds;
  const SuspensionWatch::Clock::time_point start{std::chrono::hours(5)};
  SuspensionWatch watch(std::chrono::seconds(1));
  EXPECT_EQ(watch.turn(start), milliseconds(0)) << "the first";
  EXPECT_EQ(watch.turn(start + milliseconds(900)), milliseconds(0));
  EXPECT_EQ(watch.turn(start + milliseconds(1800)), milliseconds(0));
  EXPECT_EQ(watch.turn(start + milliseconds(9800)), milliseconds(8000));
  EXPECT_EQ(watch.turn(start + milliseconds(9900)), milliseconds(0)) << "counted once";
  watch.restart(start + milliseconds(20000));
  EXPECT_EQ(watch.turn(start + milliseconds(20100)), milliseconds(0)) << "it was idle";
}

TEST_F(StallWatchTest, TheDeadlineErrorHasAllDetails) {
  rank_1(4, false);
  try {
    judge(10.4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeoutOccured);
    EXPECT_EQ(error.message(),
              "Waited 10 s for the gradient all-reduce over all ranks. Missing: rank 1 on host b, "
              "loading. This rank was training, epoch 1. Use --collective-timeout to wait "
              "longer.");
  }
}

TEST_F(StallWatchTest, PatientRanksAreWaitedForPastTheDeadline) {
  rank_1(4, true);
  EXPECT_NO_THROW(judge(11));
  rank_1(5, true);  // it has arrived, but its data has not
  EXPECT_THROW(judge(12), Error);
}

TEST_F(StallWatchTest, AsksTenTimesBeforeTheFirstLimit) {
  int asked = 0;
  for (double waited = 0; waited < 3; waited += 0.01) asked += stall.asks(waited) ? 1 : 0;
  EXPECT_GE(asked, 8);
  EXPECT_LE(asked, 10);
}

}  // namespace
}  // namespace kiln
