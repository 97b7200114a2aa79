// Real mpirun with /bin/sh as the ranks.
#include "tools/launch/mpirun_job.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/system.h"

namespace kiln {
namespace {

// Sets an environment variable during a test; nullptr removes it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    set_ = before != nullptr;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~Variable() {
    if (set_) {
      ::setenv(name_, before_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool set_ = false;
};

MpirunJob shell_job(int num_ranks, const std::string& script) {
  return {num_ranks, {}, {"/bin/sh", "-c", script}};
}

struct Ran {
  std::string lines;
  int code = 0;
  JobFailure failure;
};

void feed_all(OutputSplitter& splitter, int descriptor) {
  std::array<char, 4096> bytes{};
  while (true) {
    pollfd wait{descriptor, POLLIN, 0};
    if (::poll(&wait, 1, 60'000) != 1) break;
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count <= 0) break;
    splitter.feed({bytes.data(), static_cast<std::size_t>(count)});
  }
  splitter.finish();
}

Ran run(const MpirunJob& job) {
  Ran ran;
  JobMonitor story(planned_hosts(job));
  const auto take = [&](const OutputLine& line) {
    story.take(line);
    ran.lines += std::to_string(line.rank) + (line.is_error ? "!" : ":") + line.text + "\n";
  };
  SupervisedProcess process(mpirun_call(job));
  for (const int descriptor : {process.output(), process.errors()}) {
    OutputSplitter splitter(take);
    feed_all(splitter, descriptor);
  }
  while (!process.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ran.code = *process.ended();
  if (ran.code != 0) ran.failure = story.failure(ran.code);
  return ran;
}

bool has_words(const ProgramCall& call, const std::vector<std::string>& words) {
  return std::search(call.words.begin(), call.words.end(), words.begin(), words.end()) !=
         call.words.end();
}

TEST(MpirunJob, RanksGetTheirEnvironment) {
  const Variable given("KILN_TEST_WORD", "passed on");
  const Variable home("HOME", nullptr);
  const Ran ran = run(shell_job(2, "echo $OMPI_COMM_WORLD_RANK/$KILN_LAUNCHED/$KILN_TEST_WORD"));
  EXPECT_EQ(ran.code, 0) << ran.lines;
  EXPECT_NE(ran.lines.find("0:0/2/passed on\n"), std::string::npos) << ran.lines;
  EXPECT_NE(ran.lines.find("1:1/2/passed on\n"), std::string::npos) << ran.lines;
}

// Or ranks on other hosts would compute differently.
TEST(MpirunJob, PassesOnWhatDecidesHowGpusCompute) {
  std::vector<std::unique_ptr<Variable>> set;
  const std::vector<const char*> names = {
      "CUDA_VISIBLE_DEVICES",    "CUDA_DEVICE_ORDER",
      "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_LOG_LEVEL",
      "CUDNN_LOGINFO_DBG",       "NVIDIA_TF32_OVERRIDE",
      "PYTORCH_CUDA_ALLOC_CONF", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
      "UCX_NET_DEVICES"};
  for (const char* name : names) set.push_back(std::make_unique<Variable>(name, "1"));
  const Variable other("NVIDIA_VISIBLE_DEVICES", "all");  // of this container
  const ProgramCall call = mpirun_call(shell_job(1, "true"));
  for (const char* name : names) EXPECT_TRUE(has_words(call, {"-x", name})) << name;
  EXPECT_FALSE(has_words(call, {"-x", "NVIDIA_VISIBLE_DEVICES"}));
}

TEST(MpirunJob, HostsHaveGpusOfTheirOwn) {
  const Variable gpus("CUDA_VISIBLE_DEVICES", "GPU-1");
  MpirunJob job = shell_job(2, "true");
  job.hosts = {{"one", 1}, {"two", 1}};
  EXPECT_FALSE(has_words(mpirun_call(job), {"-x", "CUDA_VISIBLE_DEVICES"}));
  const Variable names("KILN_PASS_ON", "CUDA_VISIBLE_DEVICES");
  EXPECT_TRUE(has_words(mpirun_call(job), {"-x", "CUDA_VISIBLE_DEVICES"}));
}

TEST(MpirunJob, PassesOnWhatTheUserNames) {
  const Variable efa("FI_PROVIDER", "efa"), debug("NCCL_DEBUG", "INFO"), part("PROVIDER", "1");
  EXPECT_FALSE(has_words(mpirun_call(shell_job(1, "true")), {"-x", "FI_PROVIDER"}));
  const Variable names("KILN_PASS_ON", "ABSENT,FI_PROVIDER,NCCL_DEBUG");
  const ProgramCall call = mpirun_call(shell_job(1, "true"));
  EXPECT_TRUE(has_words(call, {"-x", "FI_PROVIDER"}));
  EXPECT_EQ(std::count(call.words.begin(), call.words.end(), "NCCL_DEBUG"), 1);
  EXPECT_EQ(std::count(call.words.begin(), call.words.end(), "ABSENT"), 0);
  EXPECT_EQ(std::count(call.words.begin(), call.words.end(), "PROVIDER"), 0);
}

TEST(MpirunJob, MoreRanksThanCoresRun) {
  const Ran ran = run(shell_job(usable_cpus() + 3, "echo here"));
  EXPECT_EQ(ran.code, 0) << ran.lines;
  EXPECT_EQ(std::count(ran.lines.begin(), ran.lines.end(), '\n'), usable_cpus() + 3);
}

TEST(MpirunJob, RanksGetRequestsForCheckpointsAndGoOn) {
  const MpirunJob job = shell_job(
      2, "trap 'asked=1' USR2; echo ready; until [ -n \"$asked\" ]; do sleep 0.05; done; echo on");
  SupervisedProcess process(mpirun_call(job));
  int ready = 0, on = 0;
  OutputSplitter splitter([&](const OutputLine& line) {
    ready += line.text == "ready" ? 1 : 0;
    on += line.text == "on" ? 1 : 0;
    if (line.text == "ready" && ready == 2) process.send(SIGUSR2);
  });
  feed_all(splitter, process.output());
  while (!process.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(on, 2);
  EXPECT_EQ(process.ended(), 0);
}

TEST(MpirunJob, AKilledRankIsNamed) {
  const Ran ran =
      run(shell_job(2, "sleep 0.5; [ $OMPI_COMM_WORLD_RANK = 0 ] || kill -9 $$; sleep 60"));
  EXPECT_EQ(ran.code, 137);
  EXPECT_EQ(ran.failure.rank, 1) << ran.lines;
  EXPECT_EQ(ran.failure.exit_code, 137);
}

TEST(MpirunJob, ARankThatFailsBeforeMpiInitIsIdentifiedByItsError) {
  const Ran ran = run(shell_job(
      2, "[ $OMPI_COMM_WORLD_RANK = 0 ] || { echo error: no >&2; sleep 0.2; exit 7; }; sleep 60"));
  EXPECT_EQ(ran.code, 7);
  EXPECT_EQ(ran.failure.rank, 1) << ran.lines;
  EXPECT_NE(ran.lines.find("1!error: no\n"), std::string::npos);
}

TEST(MpirunJob, TheCommandLineHasHostsBindingAndVariables) {
  const Variable secret("MLFLOW_TRACKING_TOKEN", "secret");
  const Variable spinning("GOMP_SPINCOUNT", "1000");
  const Variable other("SOME_OTHER_VARIABLE", "1");
  MpirunJob job = shell_job(3, "true");
  job.hosts = {{"a", 2}, {"b", 1}};
  const ProgramCall call = mpirun_call(job);
  EXPECT_TRUE(has_words(call, {"-np", "3", "--host", "a:2,b:1", "--map-by", "slot", "--bind-to",
                               "none", "--oversubscribe"}));
  EXPECT_TRUE(has_words(call, {"--mca", "oob_tcp_keepalive_time", "20"}));
  EXPECT_TRUE(has_words(call, {"-x", "MLFLOW_TRACKING_TOKEN"}));
  EXPECT_TRUE(has_words(call, {"-x", "GOMP_SPINCOUNT"}));
  EXPECT_TRUE(has_words(call, {"-x", "PATH"}));
  EXPECT_TRUE(has_words(call, {"-x", "KILN_LAUNCHED", "/bin/sh", "-c", "true"}));
  for (const std::string& word : call.words) {
    EXPECT_EQ(word.find("secret"), std::string::npos);
    EXPECT_NE(word, "SOME_OTHER_VARIABLE");
  }
  EXPECT_EQ(planned_hosts(job), (std::vector<std::string>{"a", "a", "b"}));
}

TEST(MpirunJob, TheUsersParametersTakePrecedence) {
  const Variable own("OMPI_MCA_oob_tcp_keepalive_time", "3");
  EXPECT_FALSE(has_words(mpirun_call(shell_job(1, "true")), {"--mca", "oob_tcp_keepalive_time"}));
}

TEST(MpirunJob, WithoutMpirunTheRemedyIsNamed) {
  const Variable path("PATH", "/nonexistent");
  try {
    mpirun_call(shell_job(2, "true"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("install Open MPI"), std::string::npos);
  }
}

// In a process of its own, whose limits are given; exits with the number of files it may open then,
// or with 1 after an Error.
void provide_within(rlim_t soft, rlim_t hard) {
  rlimit limit{soft, hard};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  try {
    provide_open_files(2);
  } catch (const Error& error) {
    ::_exit(error.code() == ErrorCode::kFailedToCompleteOperation ? 1 : 2);
  }
  ::getrlimit(RLIMIT_NOFILE, &limit);
  ::_exit(static_cast<int>(limit.rlim_cur));
}

TEST(OpenFilesDeathTest, AreRaisedAsFarAsTheRanksNeedThem) {
  EXPECT_EXIT(provide_within(20, 200), testing::ExitedWithCode(96), "");
  EXPECT_EXIT(provide_within(150, 200), testing::ExitedWithCode(150), "");
  EXPECT_EXIT(provide_within(20, 30), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace kiln
