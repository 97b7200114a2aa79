#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/parse.h"

namespace kiln {
namespace {

class ConfigFile : public testing::Test {
 protected:
  // The path of a file with `text`.
  std::string file(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  ~ConfigFile() override { std::filesystem::remove(path_); }

  std::string path_ = testing::TempDir() + "kiln-config-" +
                      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ConfigFile, YamlSetsOptionsAndFlagsOverrideIt) {
  const auto config = parse_as<TrainConfig>(
      train({"--epochs", "9", "--config",
             file("# a comment\nepochs: 7\nbatch_size: 32\nlearning-rate: 0.1\nlog-path: over\n"
                  "max-bad-images: 2%\n")}));
  EXPECT_EQ(config.optimization.epochs, 9);
  EXPECT_EQ(config.optimization.batch_size, 32);
  EXPECT_DOUBLE_EQ(config.optimization.learning_rate, 0.1);
  EXPECT_EQ(config.output.log_path, "over");
  EXPECT_EQ(config.settings.of("log-path").origin, Origin::kFile);
  EXPECT_EQ(config.data.max_bad_images.of(100), 2);
  EXPECT_EQ(config.settings.text("batch-size"), "32");
  EXPECT_EQ(config.settings.of("batch-size").reason, "line 3 of '" + path_ + "'");
  EXPECT_EQ(config.settings.text("epochs"), "9");
  EXPECT_EQ(config.settings.of("epochs").origin, Origin::kGiven);
}

TEST_F(ConfigFile, OverriddenOptionsAreReported) {
  const Words words =
      train({"--epochs", "5", "--batch-size", "16", "--sync-batch-norm", "true", "--config",
             file("epochs: 90\nbatch_size: 16\nsync-batch-norm: True\n"
                  "augment: flip\n")});
  const auto reason = [](const Words& line) {
    return parse_as<TrainConfig>(line).settings.of("config").reason;
  };
  EXPECT_EQ(reason(words), "is overridden by flags: epochs 90 -> 5");
  EXPECT_EQ(reason(train({"--config", file("epochs: 90\n")})), "");
}

TEST_F(ConfigFile, CharactersOfJsonMayBeInTwoHalves) {
  const auto config = parse_as<TrainConfig>(
      train({"--config", file(R"({"log-path": "a\ud83d\ude00 \\ud83d\\ude00"})")}));
  EXPECT_EQ(config.output.log_path, "a\xf0\x9f\x98\x80 \\ud83d\\ude00");
  EXPECT_NE(fault(train({"--config", file(R"({"log-path": "a\ud83d"})")})).find("unicode"),
            std::string::npos);
}

TEST_F(ConfigFile, JsonMaySetEveryOption) {
  const auto config = parse_as<TrainConfig>(
      {"train", "--config",
       file("{\n\t\"untrained-model-path\": \"\\/u\",\n\t\"train-data-path\": \"t\",\n"
            "\t\"valid_data_path\": \"v \\u00e9\", \"trained-model-path\": \"o\",\n"
            "\t\"epochs\": 7\n}\n")});
  EXPECT_EQ(config.data.untrained_model_path, "/u");
  EXPECT_EQ(config.data.valid_path, "v é");
  EXPECT_EQ(config.optimization.epochs, 7);
}

TEST_F(ConfigFile, AnEmptyFileSetsNothing) {
  EXPECT_EQ(parse_as<TrainConfig>(train({"--config", file("")})).optimization.epochs, 5);
}

TEST_F(ConfigFile, UnknownKeysNameTheirLine) {
  ErrorCode code{};
  EXPECT_EQ(
      fault(train({"--config", file("epochs: 7\nbatchsize: 3\n")}), &code),
      "'batchsize' (line 2 of '" + path_ +
          "') is not an option that can be set in a --config file. Did you mean 'batch-size'?");
  EXPECT_EQ(exit_code(code), 2);
  EXPECT_NE(fault(train({"--config", file("config: other.yaml\n")})).find("'config' (line 1"),
            std::string::npos);
}

TEST_F(ConfigFile, FaultyValuesNameTheirLine) {
  ErrorCode code{};
  EXPECT_EQ(fault(train({"--config", file("\nepochs: 0\n")}), &code),
            "--epochs (line 2 of '" + path_ +
                "') is 0, but must be greater than 0 (range 1 to 1000000).");
  EXPECT_EQ(code, ErrorCode::kGreaterThan);
  EXPECT_NE(fault(train({"--config", file("epochs: [1, 2]\n")})).find("a list or a mapping"),
            std::string::npos);
  EXPECT_NE(fault(train({"--config", file("epochs:\n")})).find("is empty"), std::string::npos);
  EXPECT_NE(fault(train({"--config", file("log-path: \"\"\n")})).find("is empty"),
            std::string::npos);
  EXPECT_NE(fault(train({"--config", file("epochs: 1\npatience: 1\nepochs: 2\n")}))
                .find("'epochs' (line 3 of '" + path_ + "') is given twice, first in line 1"),
            std::string::npos);
}

TEST_F(ConfigFile, FaultyValuesOverriddenByAFlagAreIgnored) {
  EXPECT_EQ(fault(train({"--epochs", "3", "--config", file("epochs: 0\n")})), "no fault");
}

TEST_F(ConfigFile, BrokenFilesAreFaults) {
  const std::string broken = fault({"train", "--config", file("epochs: 1\nbatch-size: [1\n")});
  EXPECT_NE(broken.find("is neither YAML nor JSON"), std::string::npos) << broken;
  EXPECT_NE(broken.find("line "), std::string::npos);
  EXPECT_NE(fault(train({"--config", file("just words")})).find("is not a mapping"),
            std::string::npos);
  EXPECT_NE(fault(train({"--config", file(std::string(100000, '['))})), "no fault");
  EXPECT_NE(fault(train({"--config", file(std::string(2 << 20, ' '))})).find("larger than"),
            std::string::npos);
}

TEST_F(ConfigFile, MustBeOneMapping) {
  for (const char* text : {"{\"epochs\": 3} garbage", "{\"epochs\": 3}\n{\"patience\": 3}",
                           "---\nepochs: 3\n---\npatience: 3\n"})
    EXPECT_NE(fault(train({"--config", file(text)})).find("more than one"), std::string::npos)
        << text;
  EXPECT_EQ(
      parse_as<TrainConfig>(train({"--config", file("---\nepochs: 3\n...\n")})).optimization.epochs,
      3);
}

// yaml-cpp takes them for documents without end.
TEST_F(ConfigFile, StrayCommasAreRefused) {
  for (const char* text : {",", ", e", "\"a\",", "epochs: 3\n---\n, e"})
    EXPECT_NE(fault(train({"--config", file(text)})).find("more than one"), std::string::npos)
        << text;
}

TEST_F(ConfigFile, MustBeARegularFile) {
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(fault({"train", "--config", path_}),
            "The --config file '" + path_ +
                "' is a pipe or a device: give the path of a YAML or JSON file.");
}

TEST_F(ConfigFile, AMissingFileIsTheOnlyFault) {
  ErrorCode code{};
  const std::string text = fault({"train", "--config", "/nowhere/run.yaml"}, &code);
  EXPECT_EQ(
      text,
      "The --config file '/nowhere/run.yaml' cannot be read (No such file or directory): give "
      "the path of a YAML or JSON file.");
  EXPECT_EQ(exit_code(code), 2);
  EXPECT_NE(fault(train({"--config", "/"})).find("is a folder"), std::string::npos);
}

TEST_F(ConfigFile, TheLogPathOfTheFileIsKnownDespiteFaults) {
  EXPECT_EQ(log_path({"train", "--config", file("log_path: here\n")}), "here");
}

}  // namespace
}  // namespace kiln
