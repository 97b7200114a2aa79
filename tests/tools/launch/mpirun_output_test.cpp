// Output as Open MPI 4.1.4 writes it.
#include "tools/launch/mpirun_job.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

std::string shown(const OutputLine& line) {
  return std::to_string(line.rank) + (line.is_error ? "!" : ":") + line.text + "\n";
}

// Parses `text` in pieces of `size` bytes.
std::string lines_of(std::string_view text, std::size_t size) {
  std::string out;
  OutputSplitter splitter([&](const OutputLine& line) { out += shown(line); });
  for (std::size_t at = 0; at < text.size(); at += size) splitter.feed(text.substr(at, size));
  splitter.finish();
  return out;
}

TEST(OutputSplitter, ReassemblesLines) {
  const std::string text =
      "[1,0]<stdout>:abc[1,1]<stdout>:xyz\n[1,0]<stdout>:def\n[1,12]<stderr>:error: [1,2]\n"
      "-----\n[1,1]<stdout>:[host] x\n[1,0]<stdout>:no end";
  const std::string expected = "1:xyz\n0:abcdef\n12!error: [1,2]\n-1:-----\n1:[host] x\n0:no end\n";
  for (const std::size_t size : {1u, 2u, 3u, 7u, 1000u}) EXPECT_EQ(lines_of(text, size), expected);
}

TEST(OutputSplitter, KeepsOnlyTheLastStateOfAnOverwrittenLine) {
  EXPECT_EQ(
      lines_of("[1,0]<stdout>:\r\x1b[Kstep 1[1,0]<stdout>:\r\x1b[Kstep 2[1,0]<stdout>:\r\x1b[K"
               "epoch 1\r\n",
               4),
      "0:epoch 1\n");
}

TEST(OutputSplitter, CannotControlATerminal) {
  EXPECT_EQ(
      lines_of("[1,0]<stdout>:a\x1b[31mred \x07\xff\tcaf\xc3[1,0]<stdout>:\xa9\n\x1b]0;t\n", 9),
      "0:a\\x1b[31mred \\x07\\xff\tcaf\xc3\xa9\n-1:\\x1b]0;t\n");
}

TEST(OutputSplitter, CutsALineThatDoesNotEnd) {
  const std::string out = lines_of("[1,1]<stdout>:" + std::string(150'000, 'a') + "\nb\n", 40'000);
  const std::string piece = "1:" + std::string(1000, 'a') + "…\n";  // a word is cut, too
  EXPECT_EQ(out, piece + piece + piece + "-1:b\n");
}

TEST(OutputSplitter, AcceptsAnyBytes) {
  std::string hostile = "[[[[1,\xff]<stdout>:[1,99999999999]<stdout>:x\n";
  hostile += std::string(3, '\0') + "[1,1]<std";
  for (int i = 0; i < 100'000; ++i) hostile += "a ";
  const std::string out = lines_of(hostile, 5000);
  EXPECT_GT(out.size(), 200'000u);
}

constexpr const char* kExit =
    "--------------------------------------------------------------------------\n"
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[3741,1],1]\n"
    "  Exit code:    7\n"
    "--------------------------------------------------------------------------\n";

JobFailure failure_of(const std::string& text, int code) {
  JobMonitor story({"node7", "node8"});
  OutputSplitter splitter([&](const OutputLine& line) { story.take(line); });
  splitter.feed(
      "[1,0]<stdout>:rank 0 on host node7: phase: training, epoch 1, step 2\n"
      "[1,1]<stdout>:rank 1 on host node8: phase: loading\n");
  EXPECT_FALSE(story.has_failure());
  splitter.feed(text);
  splitter.finish();
  EXPECT_TRUE(story.has_failure());
  return story.failure(code);
}

TEST(JobMonitor, ARanksErrorIsAFailureBeforeMpirunReportsIt) {
  JobMonitor story({"node7", "node8"});
  OutputSplitter splitter([&](const OutputLine& line) { story.take(line); });
  splitter.feed("[1,0]<stdout>:12 files with error: in their names\n[1,1]<stderr>:error: of MPI\n");
  EXPECT_FALSE(story.has_failure());
  splitter.feed(
      "[1,1]<stderr>:rank 1: error: Waited 3 s for the gradient all-reduce over all ranks.\n");
  EXPECT_TRUE(story.has_failure());
  EXPECT_EQ(story.failure(3).rank, 1);
}

TEST(JobMonitor, ReportsAnExitCode) {
  const JobFailure failure = failure_of(kExit, 7);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.host, "node8");
  EXPECT_EQ(failure.phase, "loading");
  EXPECT_EQ(failure.what, "ended with exit code 7");
  EXPECT_EQ(failure.exit_code, 3) << "no code of kiln";
  EXPECT_FALSE(failure.killed);
}

TEST(JobMonitor, WhatRankZeroToldBeforeAllLeftIsTold) {
  const std::string exit_of_rank_0 = "  Process name: [[3741,1],0]\n  Exit code:    1\n";
  const std::string leaving =
      "[1,0]<stdout>:rank 0 on host node7: phase: leaving\n"
      "[1,1]<stdout>:rank 1 on host node8: phase: leaving\n";
  const std::string error = "[1,0]<stderr>:error: no such folder\n";
  const JobFailure told = failure_of(error + leaving + exit_of_rank_0, 1);
  EXPECT_EQ(told.rank, 0);
  EXPECT_TRUE(told.told);
  EXPECT_EQ(told.phase, "training, epoch 1, step 2") << "where it failed, not that it left";
  EXPECT_TRUE(failure_of(leaving + error + exit_of_rank_0, 1).told) << "in whichever order";
  EXPECT_FALSE(failure_of(error + exit_of_rank_0, 1).told) << "it did not leave";
  EXPECT_FALSE(
      failure_of(leaving + "[1,1]<stderr>:rank 1: error: no such folder\n" + kExit, 7).told)
      << "nobody has seen it";
}

TEST(JobMonitor, ASignal) {
  const JobFailure failure = failure_of(
      "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 9 (Killed).\n",
      137);
  EXPECT_EQ(failure.rank, 0);
  EXPECT_EQ(failure.host, "node7");
  EXPECT_EQ(failure.phase, "training, epoch 1, step 2");
  EXPECT_EQ(failure.what, "was killed by signal 9 (Killed)");
  EXPECT_EQ(failure.exit_code, 137);
  EXPECT_TRUE(failure.killed);
}

TEST(JobMonitor, ReportsAnAbort) {
  const JobFailure failure = failure_of(
      "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 3.\n", 3);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.exit_code, 3);
}

TEST(JobMonitor, ABlamedRankTakesPrecedenceOverTheFirstToLeave) {
  const JobFailure failure = failure_of(
      "[1,1]<stderr>:error: rank 0 on host node7 failed: no space left\n" + std::string(kExit), 7);
  EXPECT_EQ(failure.rank, 0);
}

TEST(JobMonitor, ReportsALostHost) {
  const JobFailure failure = failure_of(
      "ORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[40316,0],0] on node node7\n"
      "  Remote daemon: [[40316,0],1] on node node8\n",
      205);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_TRUE(failure.killed);
  EXPECT_NE(failure.what.find("connection to its host was lost"), std::string::npos);
}

TEST(JobMonitor, MpirunsOwnFailureBlamesNoRank) {
  JobMonitor story({"a", "a"});
  story.take({kMpirunItself, false, "There are not enough slots available in the system"});
  const JobFailure failure = story.failure(1);
  EXPECT_EQ(failure.rank, kMpirunItself);
  EXPECT_EQ(failure.what, "ended with exit code 1");
  EXPECT_EQ(story.last_lines(kMpirunItself).size(), 1u);
}

TEST(JobMonitor, SuccessNeedsARankThatHasReportedItsEnd) {
  JobMonitor story({"a", "a"});
  story.take({kMpirunItself, false, "I start nothing."});
  story.take({0, false, "rank 0 on host a: phase: starting"});
  EXPECT_FALSE(story.has_end());
  const JobFailure failure = story.failure(0);
  EXPECT_EQ(failure.rank, kMpirunItself);
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_NE(failure.what.find("no rank reported its end"), std::string::npos);
  story.take({0, false, "rank 0 on host a: phase: leaving"});
  EXPECT_TRUE(story.has_end());
}

TEST(JobMonitor, AProgramThatCannotBeStartedIsAFailure) {
  JobMonitor story({"a", "a"});
  story.take({kMpirunItself, true, "cannot run /usr/bin/mpirun: Resource temporarily unavailable"});
  const JobFailure failure = story.failure(127);
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_NE(failure.what.find("ulimit -u"), std::string::npos);
}

TEST(JobMonitor, KeepsTheLast20LinesOfARank) {
  JobMonitor story({"a"});
  EXPECT_FALSE(story.take({0, false, "rank 0 on host a: phase: saving"}));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(story.take({0, false, std::to_string(i)}));
  EXPECT_EQ(story.last_lines(0).size(), 20u);
  EXPECT_EQ(story.last_lines(0).back(), "49");
  EXPECT_TRUE(story.last_lines(5).empty());
}

}  // namespace
}  // namespace kiln
