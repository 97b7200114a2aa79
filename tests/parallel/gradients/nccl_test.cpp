// The communicator over NCCL, with a fake group: no GPU is needed.
#include "parallel/gradients/nccl.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "base/error.h"

namespace kiln {
namespace {

using State = NcclState;

// The fake group's settings and calls; outlives the group.
struct Script {
  std::atomic<State> state = State::kReady;
  std::atomic<int> busy_polls = 0;         // polls that return kBusy after each start()
  std::atomic<bool> gpu_is_stuck = false;  // marks are not reached
  std::atomic<bool> abort_hangs = false;
  std::atomic<int> starts = 0, sums = 0, marks = 0, counts = 0, joins = 0, closes = 0, aborts = 0;
  std::atomic<int> marks_while_busy = 0;
  std::atomic<std::uint64_t> joined = 0;
  std::atomic<NcclType> type = NcclType::kFloat32;
  std::atomic<std::size_t> count = 0;
  std::string words = "remote process exited\nat a stack trace";  // set before the group is made
};

class PlayedGroup : public NcclGroup {
 public:
  explicit PlayedGroup(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  State state() override {
    if (script_->state == State::kReady && busy_ > 0) {
      --busy_;
      return State::kBusy;
    }
    return script_->state;
  }
  std::string fault() override { return script_->words; }
  void start(const NcclCall& call) override {
    ++script_->starts;
    script_->sums += call.is_sum ? 1 : 0;
    script_->type = call.type;
    script_->count = call.count;
    busy_ = script_->busy_polls;
  }
  std::uint64_t mark() override {
    if (busy_ > 0) ++script_->marks_while_busy;
    ++script_->marks;
    return ++marks_;
  }
  void count() override {
    ++script_->counts;
    counted_ = marks_;
  }
  std::uint64_t num_finished() override { return script_->gpu_is_stuck ? 0U : counted_; }
  double seconds() override { return 0.25 * static_cast<double>(script_->marks); }
  void join(std::uint64_t mark) override {
    ++script_->joins;
    script_->joined = mark;
  }
  void close(double) override { ++script_->closes; }
  void abort() override {
    ++script_->aborts;
    while (script_->abort_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::shared_ptr<Script> script_;
  int busy_ = 0;
  std::uint64_t marks_ = 0, counted_ = 0;
};

struct NcclTest : testing::Test {
  std::unique_ptr<Communicator> make() {
    plan.join_group = [this] {
      ++joins;
      return std::make_unique<PlayedGroup>(script);
    };
    return make_nccl_communicator(plan);
  }
  // Calls wait() until it throws, for at most five seconds.
  std::string failure_of(Communicator& communicator, ErrorCode code = ErrorCode::kTimeoutOccured) {
    for (int i = 0; i < 500; ++i) {
      try {
        communicator.wait(1);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.message();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return "";
  }
  void wait_for(const std::atomic<int>& number, int value) {
    wait_for_some(number, value);
    EXPECT_EQ(number, value);
  }
  void wait_for_some(const std::atomic<int>& number, int least = 1) {
    for (int i = 0; i < 500 && number < least; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_GE(number, least);
  }

  std::shared_ptr<Script> script = std::make_shared<Script>();
  NcclPlan plan{.size = 2, .deadline_s = 0.3};
  int joins = 0;  // of groups
};

TEST_F(NcclTest, SumsAreLaunchedBeforeTheyAreMarked) {
  script->busy_polls = 3;
  const auto communicator = make();
  const Communicator::Ticket first = communicator->all_reduce(at::ones({5}));
  EXPECT_EQ(script->count, 5U);
  EXPECT_EQ(script->type, NcclType::kFloat32);
  communicator->all_reduce(at::ones({3}, at::kLong));
  EXPECT_EQ(script->type, NcclType::kInt64);
  communicator->all_reduce(at::ones({3}, at::kDouble));
  EXPECT_EQ(script->type, NcclType::kFloat64);
  EXPECT_EQ(script->joins, 0);
  communicator->wait(first);
  EXPECT_EQ(script->joins, 1);
  EXPECT_EQ(script->joined, 1U);  // not those after it
  EXPECT_EQ(script->sums, 3);
  EXPECT_EQ(script->marks, 3);
  EXPECT_EQ(script->marks_while_busy, 0);
}

TEST_F(NcclTest, BroadcastsAreReadyWithoutWait) {
  const auto communicator = make();
  communicator->broadcast(at::ones({2, 2}));
  EXPECT_EQ(script->starts, 1);
  EXPECT_EQ(script->sums, 0);
  EXPECT_EQ(script->joins, 1);
}

TEST_F(NcclTest, ALaneIsASeparateGroupAndNamesItsSums) {
  plan.deadline_s = 60;
  script->gpu_is_stuck = true;
  std::atomic<int> waits = 0;
  plan.watch.waiting = [&](const std::string& collective, std::uint64_t, double) {
    if (collective == "small sum") ++waits;
  };
  const auto communicator = make();
  const auto lane = communicator->second_lane("small sum");
  EXPECT_EQ(joins, 2);
  EXPECT_EQ(lane->size(), 2);
  lane->all_reduce(at::ones({5}));
  wait_for_some(waits);
}

// Counting is a kernel and a copy, which the next sum waits for.
TEST_F(NcclTest, SmallSumsAreCountedEveryFewAndBeforeThoseOfTheGradients) {
  const auto communicator = make();
  const auto lane = communicator->second_lane("small sum");
  for (int i = 0; i < 20; ++i) lane->all_reduce(at::ones({5}));
  EXPECT_EQ(script->counts, 2);
  communicator->all_reduce(at::ones({5}));
  EXPECT_EQ(script->counts, 4);
  communicator->all_reduce(at::ones({5}));
  EXPECT_EQ(script->counts, 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(800));  // past the deadline
  EXPECT_NO_THROW(lane->wait(1));
}

TEST_F(NcclTest, ASumThatIsNotCountedYetHasItsDeadline) {
  const auto communicator = make();
  const auto lane = communicator->second_lane("small sum");
  script->gpu_is_stuck = true;
  lane->all_reduce(at::ones({5}));
  EXPECT_EQ(script->counts, 0);
  EXPECT_NE(failure_of(*lane).find("for the small sum over all ranks"), std::string::npos);
}

TEST_F(NcclTest, EmptyTensorsAreSkipped) {
  const auto communicator = make();
  communicator->all_reduce(at::ones({0}));
  communicator->broadcast(at::ones({0}));
  EXPECT_EQ(script->starts, 0);
}

TEST_F(NcclTest, UnknownTypesAndGapsAreInternalErrors) {
  const auto communicator = make();
  EXPECT_THROW(communicator->all_reduce(at::ones({2}, at::kByte)), InternalError);
  EXPECT_THROW(communicator->all_reduce(at::ones({4, 4}).slice(1, 0, 2)), InternalError);
}

TEST_F(NcclTest, ClosesOnceAndPolitely) {
  make()->all_reduce(at::ones({5}));
  EXPECT_EQ(script->closes, 1);
  EXPECT_EQ(script->aborts, 0);
}

TEST_F(NcclTest, AFailureOfThisRankLeavesNcclAsItIs) {
  const auto fail = [this] {
    const auto communicator = make();
    communicator->all_reduce(at::ones({5}));
    throw std::runtime_error("disk full");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_EQ(script->closes, 0);
  EXPECT_EQ(script->aborts, 0);
}

TEST_F(NcclTest, FinishedWorkHasNoDeadline) {
  const auto communicator = make();
  for (int i = 0; i < 10; ++i) {
    communicator->all_reduce(at::ones({5}));
    std::this_thread::sleep_for(std::chrono::milliseconds(70));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_NO_THROW(communicator->wait(1));
}

TEST_F(NcclTest, TheDeadlineNamesCollectiveAndSeconds) {
  plan.deadline_s = 0.8;
  script->gpu_is_stuck = true;
  const auto communicator = make();
  communicator->all_reduce(at::ones({5}));
  EXPECT_EQ(failure_of(*communicator), "Waited 1 s for the gradient all-reduce over all ranks.");
  EXPECT_THROW(communicator->all_reduce(at::ones({5})), Error);
  EXPECT_THROW(communicator->broadcast(at::ones({5})), Error);
  wait_for(script->aborts, 1);
  EXPECT_EQ(script->closes, 0);
}

TEST_F(NcclTest, TheWatcherEnforcesTheDeadlineAndKnowsTheIndex) {
  std::uint64_t places = 40;
  plan.watch.started = [&] { return ++places; };
  std::atomic<bool> patient = true;
  std::atomic<std::uint64_t> waited_at = 0;
  plan.watch.waiting = [&](const std::string&, std::uint64_t place, double) {
    waited_at = place;
    if (!patient) throw Error(ErrorCode::kTimeoutOccured, "Missing: rank 1.");
  };
  script->gpu_is_stuck = true;
  const auto communicator = make();
  communicator->all_reduce(at::ones({5}));
  communicator->all_reduce(at::ones({5}));
  std::this_thread::sleep_for(std::chrono::milliseconds(800));  // past the plan's deadline
  EXPECT_NO_THROW(communicator->wait(1));
  EXPECT_EQ(waited_at, 42U);  // after the setup
  patient = false;
  EXPECT_EQ(failure_of(*communicator), "Missing: rank 1.");
}

TEST_F(NcclTest, ASetUpThatDoesNotEndMeetsTheDeadline) {
  script->state = State::kBusy;
  try {
    make();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeoutOccured);
    EXPECT_NE(error.message().find("for the NCCL setup over all ranks"), std::string::npos);
  }
  EXPECT_EQ(script->aborts, 1);
}

TEST_F(NcclTest, ASetUpThatFailsSaysWhy) {
  script->state = State::kFailed;
  try {
    make();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("NCCL setup over all ranks failed: remote process exited."),
              std::string::npos)
        << error.message();
  }
}

TEST_F(NcclTest, ALaunchThatHangsMeetsTheDeadline) {
  const auto communicator = make();
  script->busy_polls = 1 << 30;
  EXPECT_THROW(communicator->all_reduce(at::ones({5})), Error);
  EXPECT_EQ(script->marks, 0);
}

TEST_F(NcclTest, FaultsOfNcclAndCudaEndTheWait) {
  plan.deadline_s = 60;
  script->gpu_is_stuck = true;
  const auto communicator = make();
  communicator->all_reduce(at::ones({5}));
  script->state = State::kFailed;
  EXPECT_NE(failure_of(*communicator).find("gradient all-reduce over all ranks failed: remote"),
            std::string::npos);
}

TEST_F(NcclTest, AFaultOfCudaInNcclIsTheGpus) {
  plan.deadline_s = 60;
  script->words = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  const auto communicator = make();
  script->gpu_is_stuck = true;
  communicator->all_reduce(at::ones({5}));
  script->state = State::kFailed;
  EXPECT_NE(
      failure_of(*communicator, ErrorCode::kFailedToCompleteOperation).find("gradient all-reduce"),
      std::string::npos);
}

TEST_F(NcclTest, AFaultOfThisRankIsNoTimeout) {
  plan.deadline_s = 60;
  for (const auto& [words, code] : std::vector<std::pair<const char*, ErrorCode>>{
           {"invalid usage (run with NCCL_DEBUG=WARN for details)",
            ErrorCode::kFailedToCompleteOperation},
           {"unhandled cuda error: Failed to CUDA malloc 'out of memory'",
            ErrorCode::kModuleOutOfMemory}}) {
    script->words = words;
    script->gpu_is_stuck = false;
    script->state = State::kReady;
    const auto communicator = make();
    script->gpu_is_stuck = true;
    communicator->all_reduce(at::ones({5}));
    script->state = State::kFailed;
    EXPECT_FALSE(failure_of(*communicator, code).empty()) << words;
  }
}

TEST_F(NcclTest, TellsTheSecondsOfItsSums) {
  const auto communicator = make();
  EXPECT_EQ(communicator->all_reduce_seconds(), 0);
  communicator->all_reduce(at::ones({5}));
  communicator->all_reduce(at::ones({5}));
  EXPECT_EQ(communicator->all_reduce_seconds(), 0.5);
}

TEST_F(NcclTest, AnotherRanksFailureEndsTheWait) {
  plan.deadline_s = 60;
  script->gpu_is_stuck = true;
  plan.watch.waiting = [](const std::string& collective, std::uint64_t, double waited_s) {
    EXPECT_EQ(collective, "gradient all-reduce");
    if (waited_s > 0.2) throw FailedElsewhere("rank 1 on host b", "disk full", 3);
  };
  const auto communicator = make();
  communicator->all_reduce(at::ones({5}));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_THROW(communicator->wait(1), FailedElsewhere);
  EXPECT_THROW(communicator->all_reduce(at::ones({5})), FailedElsewhere);
}

TEST_F(NcclTest, AStuckProgramIsReported) {
  std::atomic<int> reports = 0;
  plan.watch.grace_s = 0.2;
  plan.watch.stuck = [&](const std::exception_ptr& failure) {
    EXPECT_THROW(std::rethrow_exception(failure), Error);
    ++reports;
  };
  script->gpu_is_stuck = true;
  script->abort_hangs = true;
  const auto communicator = make();
  communicator->all_reduce(at::ones({5}));
  wait_for(reports, 1);
  script->abort_hangs = false;
}

class NcclLog : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})
      ::unsetenv(name);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    SetUp();
    std::filesystem::remove_all(folder_);
  }
  const std::string name_ = ::testing::TempDir() + "kiln_" + std::to_string(::getpid());
  const std::filesystem::path folder_ = name_ + "_100%";
};

TEST_F(NcclLog, IsBesideTheDriverLogUnlessTheUserChoseAFile) {
  const std::filesystem::path file = folder_ / "70_nccl_log_3.txt";
  EXPECT_EQ(send_nccl_log_to(folder_, 3), file);
  EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "INFO");
  EXPECT_STREQ(std::getenv("NCCL_DEBUG_FILE"), (name_ + "_100%%/70_nccl_log_3.txt").c_str());
  EXPECT_FALSE(send_nccl_log_to(folder_, 3));
}

TEST_F(NcclLog, KeepsTheUsersLevelAndIsOffInAReadOnlyFolder) {
  EXPECT_FALSE(send_nccl_log_to(folder_ / "missing", 3));
  EXPECT_EQ(std::getenv("NCCL_DEBUG"), nullptr);
  ::setenv("NCCL_DEBUG", "TRACE", 1);
  EXPECT_TRUE(send_nccl_log_to(folder_, 3));
  EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "TRACE");
  EXPECT_EQ(std::getenv("NCCL_DEBUG_SUBSYS"), nullptr);
}

TEST_F(NcclLog, NamesTheNetwork) {
  const std::filesystem::path file = folder_ / "log";
  EXPECT_EQ(network_in_nccl_log(file), "");
  std::ofstream(file) << "vm:7:9 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
                         "vm:7:9 [0] NCCL INFO Using network Socket\n"
                         "vm:7:9 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0\n";
  EXPECT_EQ(network_in_nccl_log(file), "Socket");
}

}  // namespace
}  // namespace kiln
