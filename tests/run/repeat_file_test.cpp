#include "run/prepare/repeat_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/command_line.h"
#include "cli/options.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string repeat_text(const Settings& settings) {
  return kiln::repeat_text(settings, "");
}

Settings settings_of(std::vector<std::string> more) {
  more.insert(more.begin(), {"train", "--untrained-model-path", "u", "--train-data-path", "t",
                             "--valid-data-path", "v", "--trained-model-path", "o"});
  const Invocation invocation = parse_command_line(more);
  invocation.problems.throw_if_any();
  return std::get<TrainConfig>(invocation.command).settings;
}

// What the text means as a --config file.
TrainConfig read_back(const std::string& text) {
  const fs::path file = fs::temp_directory_path() / "kiln-choices-test.yaml";
  std::ofstream(file) << text;
  const Invocation invocation =
      parse_command_line({"train", "--config", file.string(), "--trained-model-path", "o2"});
  fs::remove(file);
  invocation.problems.throw_if_any();
  return std::get<TrainConfig>(invocation.command);
}

TEST(Found, IsToldOnce) {
  TextPairs plan;
  add_found_lines(
      settings_of({}).found("auto", "True", "few images").found("precision", "fp32", ""), plan);
  EXPECT_EQ(plan, (TextPairs{{"auto", "True (few images)"}}));
}

TEST(RepeatText, IsAConfigFileOfWhatIsGiven) {
  const Settings settings =
      settings_of({"--learning-rate", "0.05", "--epochs", "7", "--log-path", "somewhere",
                   "--checkpoint-path", "c", "--time-limit", "30min", "--batch-size", "16"});
  const std::string text =
      repeat_text(settings.found("epochs", "3", "that fit").found("steps", "40", "were made"));
  for (const char* gone : {"somewhere", "time-limit", "checkpoint", "patience", "epochs: 7"})
    EXPECT_EQ(text.find(gone), std::string::npos) << gone;
  const TrainConfig again = read_back(text);
  EXPECT_EQ(again.optimization.learning_rate, 0.05);
  EXPECT_EQ(again.optimization.epochs, 3);
  EXPECT_EQ(again.optimization.steps, 40);
  EXPECT_EQ(again.optimization.time_limit_s, 0);
  EXPECT_EQ(again.data.train_path, "t");
}

// Where leaving it out would mean something else.
TEST(RepeatText, KeepsADefaultThatIsGiven) {
  for (const auto& [option, value] : {std::pair("learning-rate", "0.001"), std::pair("epochs", "5"),
                                      std::pair("augment", "none"), std::pair("mixup", "0")}) {
    ASSERT_EQ(find_option(*find_command("train"), option)->default_text, value);
    const std::string line = std::string("\n") + option + ": " + value + "\n";
    EXPECT_NE(repeat_text(settings_of({std::string("--") + option, value})).find(line),
              std::string::npos)
        << line;
    EXPECT_EQ(repeat_text(settings_of({})).find(line), std::string::npos) << line;
  }
}

TEST(TextsInEffect, AreWhatARunHasFound) {
  const Settings asked = settings_of({});
  const Settings settings =
      asked.found("learning-rate", "0.0012", "for sgd").found("precision", "bf16", "");
  const auto text_of = [](const OptionTexts& texts, const std::string& name) {
    return std::ranges::find(texts, name, &OptionTexts::value_type::first)->second;
  };
  const OptionTexts found = texts_in_effect(asked, settings, 0);
  EXPECT_EQ(text_of(found, "learning-rate"), "0.0012");
  EXPECT_EQ(text_of(found, "epochs"), "5");
  EXPECT_EQ(text_of(found, "precision"), "fp32") << "it is compared by itself";
  EXPECT_EQ(text_of(texts_in_effect(asked, asked, 2), "epochs"), "2");
}

TEST(RepeatText, KeepsPathsAsTheyAre) {
  for (const std::string path : {"a b: #c", "it's", "\"quoted\"\\", "null",
                                 "photos \xc3\xa9t\xc3\xa9", "-dash", "two\nlines"}) {
    const Settings settings = settings_of({}).with("train-data-path", path, Origin::kGiven);
    EXPECT_EQ(read_back(repeat_text(settings)).data.train_path, path);
  }
}

TEST(RepeatText, HasNoSecretOfAUrl) {
  const Settings settings = settings_of({}).with("weights", "https://host/w.pth?…", Origin::kGiven);
  const std::string text = repeat_text(settings);
  EXPECT_NE(text.find("\n# weights: https://host/w.pth?…"), std::string::npos) << text;
  EXPECT_TRUE(read_back(text).data.network.weights.empty());
  const std::string cached = repeat_text(
      settings.found("weights", "/cache/w.pth", "downloaded from https://host/w.pth?…"));
  EXPECT_NE(cached.find("\nweights: /cache/w.pth  # "), std::string::npos) << cached;
}

TEST(RepeatText, NamesAChoiceWithoutAWordInAComment) {
  const std::string text =
      repeat_text(settings_of({}).found("image-size", "", "32x32, all images have this size"));
  EXPECT_NE(text.find("\n# image-size: 32x32"), std::string::npos) << text;
  EXPECT_EQ(read_back(text).data.image_size, ImageSize());
}

}  // namespace
}  // namespace kiln
