// Files that strangers call a run's record.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "peak_memory.h"
#include "record/run_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

const std::string kStart = "{\"event\":\"start\",\"time\":1}\n";

void expect_refused(const std::string& lines, std::size_t max_mib) {
  const std::string text = kStart + lines;
  EXPECT_THROW(parse_run(text), Error) << lines.substr(0, 80);
  EXPECT_LT(test::peak_mib_of([&] {
              try {
                parse_run(text);
              } catch (const Error&) {
              }
            }),
            max_mib)
      << lines.substr(0, 80);
}

TEST(HostileRecords, DepthDoesNotUseUpTheStack) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  expect_refused("{\"event\":\"start\",\"time\":1,\"num_ranks\":" + deep + "}\n", 32);
  expect_refused("{\"event\":\"start\",\"time\":1,\"num_ranks\":[[1]]}\n", 32);
}

TEST(HostileRecords, AConfusionMatrixIsNoLargerThanTrainingWrites) {
  std::string cells;
  for (int i = 0; i < 20'000; ++i) cells += "[0,0,1],";
  for (const int classes : {2001, 20'000})
    expect_refused("{\"event\":\"epoch\",\"judgement\":{\"confusion\":{\"num_classes\":" +
                       std::to_string(classes) + ",\"cells\":[" + cells + "[0,0,1]]}}}\n",
                   64);
}

TEST(HostileRecords, ShortLinesDoNotMakeLongRecords) {
  std::string lines;
  for (int i = 0; i < 1'000'000; ++i) lines += "{\"event\":\"epoch\"}\n";
  expect_refused(lines, 192);
}

TEST(HostileRecords, AFileIsLookedAtBeforeItIsRead) {
  const fs::path file = fs::path(testing::TempDir()) / ("sparse_" + std::to_string(::getpid()));
  for (const std::string& beginning : {std::string(), kStart}) {
    std::ofstream(file, std::ios::binary) << beginning;
    fs::resize_file(file, std::uint64_t{3} << 30);
    EXPECT_THROW(read_run(file), Error);
    EXPECT_THROW(RunFollower(file).read_news(), Error);
    EXPECT_LT(test::peak_mib_of([&] {
                try {
                  read_run(file);
                } catch (const Error&) {
                }
              }),
              32U);
  }
  fs::remove(file);
}

}  // namespace
}  // namespace kiln
