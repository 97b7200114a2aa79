// Real processes: /bin/sh instead of mpirun.
#include "tools/launch/supervised_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

namespace kiln {
namespace {

ProgramCall shell(const std::string& script) {
  return {{"/bin/sh", "-c", script}, {}};
}

// Everything up to the end, or up to the first line break if `one_line`.
std::string read_from(int descriptor, bool one_line = false) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (!one_line || text.find('\n') == text.npos) {
    pollfd wait{descriptor, POLLIN, 0};
    if (::poll(&wait, 1, 20'000) != 1) break;
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return text;
}

int end_of(SupervisedProcess& process) {
  read_from(process.output());
  while (!process.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return *process.ended();
}

// A zombie that waits for its new parent counts as dead.
bool is_alive(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(") ");
  return end != text.npos && text[end + 2] != 'Z' && text[end + 2] != 'X';
}

bool is_gone_soon(pid_t process) {
  for (int i = 0; i < 400 && is_alive(process); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return !is_alive(process);
}

// Prints the id of an orphaned process with its own session that ignores signals.
constexpr const char* kOrphan =
    "setsid sh -c 'trap \"\" TERM INT HUP USR1; echo $$; while :; do sleep 1; done' & ";

TEST(SupervisedProcess, ReturnsOutputAndExitCode) {
  SupervisedProcess process({{"/bin/sh", "-c", "echo out; echo $KILN_TEST_WORD >&2; cat; exit 7"},
                             {{"KILN_TEST_WORD", "given"}}});
  EXPECT_EQ(read_from(process.output()), "out\n");
  EXPECT_EQ(read_from(process.errors()), "given\n");
  EXPECT_EQ(end_of(process), 7);
  EXPECT_EQ(process.kill(), 7);
}

TEST(SupervisedProcess, ASignalIsExitCode128PlusItsNumber) {
  SupervisedProcess process(shell("kill -9 $$"));
  EXPECT_EQ(end_of(process), 128 + SIGKILL);
}

TEST(SupervisedProcess, AMissingProgramIsReported) {
  SupervisedProcess process({{"/nonexistent/mpirun"}, {}});
  EXPECT_EQ(read_from(process.errors()),
            "cannot run /nonexistent/mpirun: No such file or directory\n");
  EXPECT_EQ(end_of(process), 127);
}

TEST(SupervisedProcess, StartsWhileAnotherThreadSetsVariables) {
  ::setenv("KILN_TEST_OTHER", "0", 1);
  std::jthread setter([](const std::stop_token& stop) {
    while (!stop.stop_requested()) ::setenv("KILN_TEST_OTHER", "1", 1);
  });
  for (int i = 0; i < 100; ++i) {
    SupervisedProcess process({{"/bin/true"}, {{"KILN_TEST_WORD", "given"}}});
    pollfd end{process.output(), POLLIN, 0};
    ASSERT_EQ(::poll(&end, 1, 20'000), 1) << "process " << i << " hangs before its program";
  }
}

TEST(SupervisedProcess, AProgramDiesOfAClosedPipeThoughThisProcessDoesNot) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  SupervisedProcess process(shell("sh -c 'kill -PIPE $$'; echo $?"));
  EXPECT_EQ(read_from(process.output(), true), std::to_string(128 + SIGPIPE) + "\n");
  ::signal(SIGPIPE, before);
}

TEST(SupervisedProcess, PassesTheStopOn) {
  SupervisedProcess process(
      shell("trap 'echo stopped; exit 3' USR1; echo ready; while :; do sleep 0.05; done"));
  EXPECT_EQ(read_from(process.output(), true), "ready\n");
  process.send(SIGUSR1);
  EXPECT_EQ(read_from(process.output()), "stopped\n");
  EXPECT_EQ(end_of(process), 3);
}

TEST(SupervisedProcess, PassesRequestsForCheckpointsOnAndLives) {
  SupervisedProcess process({{"/usr/bin/env", "--default-signal=USR2", "/bin/sh", "-c",
                              "trap 'echo asked' USR2; trap 'exit 3' USR1; echo ready; "
                              "while :; do sleep 0.05; done"},
                             {}});
  EXPECT_EQ(read_from(process.output(), true), "ready\n");
  for (int i = 0; i < 2; ++i) {
    process.send(SIGUSR2);
    EXPECT_EQ(read_from(process.output(), true), "asked\n");
  }
  process.send(SIGUSR1);
  EXPECT_EQ(end_of(process), 3);
}

TEST(SupervisedProcess, ARequestForACheckpointDoesNotEndAProgramThatIsStarting) {
  SupervisedProcess process(shell("kill -USR2 $$; echo here; exit 3"));
  EXPECT_EQ(read_from(process.output(), true), "here\n");
  EXPECT_EQ(end_of(process), 3);
}

TEST(SupervisedProcess, OrphansEndWithTheProgram) {
  SupervisedProcess process(shell(std::string(kOrphan) + "sleep 0.3; exit 5"));
  const pid_t orphan = std::stoi(read_from(process.output(), true));
  EXPECT_TRUE(is_alive(orphan));
  EXPECT_EQ(end_of(process), 5);
  EXPECT_FALSE(is_alive(orphan));
}

TEST(SupervisedProcess, KillEndsTheWholeTreeIncludingStoppedProcesses) {
  SupervisedProcess process(shell(std::string(kOrphan) + "sleep 1000 & kill -STOP $!; wait"));
  const pid_t orphan = std::stoi(read_from(process.output(), true));
  EXPECT_EQ(process.kill(), 128 + SIGKILL);
  EXPECT_FALSE(is_alive(orphan));
  EXPECT_EQ(read_from(process.output()), "");
}

// A child process that starts a tree and dies by SIGKILL.
TEST(SupervisedProcess, TheTreeEndsWithThisProcessEvenOnSigkill) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    SupervisedProcess process(shell(std::string(kOrphan) + "wait"));
    const std::string id = read_from(process.output(), true);
    if (::write(ends[1], id.data(), id.size()) < 0) ::_exit(1);
    ::pause();
  }
  std::array<char, 32> text{};
  ASSERT_GT(::read(ends[0], text.data(), text.size() - 1), 0);
  const pid_t orphan = std::atoi(text.data());
  EXPECT_TRUE(is_alive(orphan));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(is_gone_soon(orphan));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace kiln
