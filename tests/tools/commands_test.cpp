// Commands in this process, from their words to their output, files and failures.
#include "tools/commands.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/scratch_folder.h"
#include "report/error_info.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = 0;
  std::string output;                 // standard output
  std::vector<std::string> messages;  // of a failure
};

Outcome run_words(const std::vector<std::string>& words) {
  Outcome outcome;
  testing::internal::CaptureStdout();
  try {
    Process process;
    outcome.code = run_program(words, process);
  } catch (...) {
    const FailureReport report = report_failure(std::current_exception());
    outcome.code = report.exit_code;
    outcome.messages = report.messages;
  }
  outcome.output = testing::internal::GetCapturedStdout();
  return outcome;
}

class Commands : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return scratch_ / name; }

  // 12 images of 16 pixels in 3 classes, in train/ and val/ of "data".
  void draw() {
    ASSERT_EQ(run_words({"demo-data", "--output-path", path("data"), "--images", "12", "--classes",
                         "3", "--size", "16"})
                  .code,
              0);
  }
  nlohmann::json inspected(const std::string& name) const {
    const Outcome outcome = run_words({"inspect", path(name), "--json"});
    EXPECT_EQ(outcome.code, 0);
    return nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }
  void expect_refused(const std::vector<std::string>& words, int code, const std::string& part) {
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, code);
    ASSERT_FALSE(outcome.messages.empty());
    EXPECT_NE(outcome.messages.front().find(part), std::string::npos) << outcome.messages.front();
  }

  ScratchFolder scratch_;
};

TEST_F(Commands, DrawnImagesAreCountedByInspect) {
  draw();
  const nlohmann::json train = inspected("data/train"), valid = inspected("data/val");
  EXPECT_EQ(train["images"].get<int>() + valid["images"].get<int>(), 12);
  EXPECT_EQ(train["num_classes"], 3);
  EXPECT_EQ(train["most_common_sizes"][0]["width"], 16);
}

TEST_F(Commands, ConvertAndPackKeepImagesAndClasses) {
  draw();
  EXPECT_EQ(
      run_words({"convert", "--input-path", path("data/train"), "--output-path", path("made")})
          .code,
      0);
  EXPECT_EQ(run_words({"pack", "--input-path", path("made"), "--output-path", path("shards")}).code,
            0);
  const nlohmann::json source = inspected("data/train");
  for (const char* name : {"made", "shards"}) {
    const nlohmann::json copy = inspected(name);
    EXPECT_EQ(copy["images"], source["images"]) << name;
    EXPECT_EQ(copy["classes"], source["classes"]) << name;
  }
}

TEST_F(Commands, CheckFailsForABadImage) {
  draw();
  scratch_.put("data/train/bad/1.png", "no image");
  const Outcome outcome = run_words({"inspect", path("data/train"), "--check", "--json"});
  EXPECT_EQ(outcome.code, 1);
  const nlohmann::json report = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(report["bad_images"], 1);
  EXPECT_EQ(report["faults"][0]["file"], "bad/1.png");
}

TEST_F(Commands, DescribePrintsEveryNetwork) {
  const Outcome outcome = run_words({"describe", "--format", "json"});
  EXPECT_EQ(outcome.code, 0);
  for (const nlohmann::json& command : nlohmann::json::parse(outcome.output)["commands"])
    for (const nlohmann::json& option : command["options"])
      if (command["name"] == "init-model" && option["name"] == "model-name") {
        EXPECT_GE(option["choices"].size(), 13u);
      }
}

TEST_F(Commands, InputsThatAreNotThereAreRefused) {
  expect_refused({"inspect", path("nowhere")}, 1, path("nowhere"));
  expect_refused({"convert", "--input-path", path("nowhere"), "--output-path", path("made")}, 1,
                 path("nowhere"));
  expect_refused({"pack", "--input-path", path("nowhere"), "--output-path", path("made")}, 1,
                 path("nowhere"));
  expect_refused({"report", path("nowhere")}, 1, path("nowhere"));
  expect_refused({"init-model", "resnet18", "--weights", path("nowhere.pth"),
                  "--untrained-model-path", path("made")},
                 1, "nowhere.pth");
  EXPECT_FALSE(fs::exists(path("made/_meta.yaml")));
}

TEST_F(Commands, OutputsThatHoldOtherThingsAreRefusedAndLeft) {
  draw();
  scratch_.put("made/thesis.tex", "precious");
  expect_refused({"convert", "--input-path", path("data/train"), "--output-path", path("made")}, 3,
                 "thesis.tex");
  expect_refused({"demo-data", "--output-path", path("made"), "--images", "6"}, 3, "thesis.tex");
  expect_refused({"init-model", "resnet18", "--untrained-model-path", path("made")}, 3,
                 "thesis.tex");
  EXPECT_EQ(bytes_of(path("made/thesis.tex")), "precious");
}

TEST_F(Commands, AWrongCommandLineHasExitCode2) {
  expect_refused({"inspect", path("."), "--jsn"}, 2, "--json");
  expect_refused({"convert", "--input-path", path(".")}, 2, "--output-path");
}

}  // namespace
}  // namespace kiln
