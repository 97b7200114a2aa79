#include "run/prepare/choices.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/command_line.h"
#include "cli/options.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string repeat_text(const TrainConfig& config, std::vector<Choice> choices) {
  return kiln::repeat_text(repeated_run(config, std::move(choices)));
}

TrainConfig config_of(std::vector<std::string> more) {
  more.insert(more.begin(), {"train", "--untrained-model-path", "u", "--train-data-path", "t",
                             "--valid-data-path", "v", "--trained-model-path", "o"});
  const Invocation invocation = parse_command_line(more);
  invocation.problems.throw_if_any();
  return std::get<TrainConfig>(invocation.command);
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

TEST(Choices, ALaterOneOfAnOptionReplacesTheEarlier) {
  std::vector<Choice> choices;
  choose(choices, {"epochs", "90", "at most"});
  choose(choices, {"batch-size", "8", "few images"});
  choose(choices, {"epochs", "12", "that fit"});
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[1].value, "12");
}

TEST(Choices, AreToldOnce) {
  TextPairs plan;
  add_choice_lines({{"batch-size", "8", "few images"}, {"precision", "fp32", "", true}}, plan);
  EXPECT_EQ(plan, (TextPairs{{"batch-size", "8 (few images)"}}));
}

// What --recipe modern leaves to the length of the run.
TEST(FollowLength, SetsWhatTheLineLeavesOpen) {
  TrainConfig config = config_of({"--recipe", "modern", "--epochs", "15", "--mixup", "0.3"});
  follow_length(config, 100, /*kept_side=*/32, /*num_ranks=*/1);
  const RecipeConfig& recipe = config.optimization.recipe;
  EXPECT_EQ(config.optimization.learning_rate, 0.001 * config.optimization.batch_size);
  EXPECT_EQ(recipe.weight_decay, 0.005);
  EXPECT_EQ(config.optimization.num_warmup_steps, 4.5);
  EXPECT_NEAR(recipe.ema, 1 - 1 / 150.0, 1e-6);
  EXPECT_EQ(recipe.mixup, 0.3);
  EXPECT_EQ(config.data.augment, parse_augment("flip"));
  EXPECT_NE(std::ranges::find(config.effective_options,
                              std::pair<std::string, std::string>("augment", "flip")),
            config.effective_options.end());
  config = config_of({"--recipe", "modern", "--epochs", "90", "--batch-size", "256"});
  follow_length(config, 5000, /*kept_side=*/0, /*num_ranks=*/1);
  EXPECT_EQ(config.optimization.learning_rate, 0.256);
  EXPECT_EQ(recipe.weight_decay, 5e-5);
  EXPECT_EQ(config.optimization.num_warmup_steps, 5);
  EXPECT_EQ(recipe.ema, 0.9999);
  EXPECT_EQ(recipe.mixup, 0.1);
  EXPECT_EQ(config.data.augment, parse_augment("standard"));
  // As many images a step on eight ranks: the same rate, by --lr-scaling linear, and decay.
  config = config_of({"--recipe", "modern", "--epochs", "90", "--batch-size", "32"});
  follow_length(config, 5000, /*kept_side=*/0, /*num_ranks=*/8);
  EXPECT_EQ(config.optimization.learning_rate, 0.032);
  EXPECT_EQ(recipe.weight_decay, 5e-5);
  config = config_of({"--recipe", "modern", "--steps", "300"});
  follow_length(config, 100, /*kept_side=*/0, /*num_ranks=*/1);
  EXPECT_NEAR(config.optimization.learning_rate, 0.0003 * config.optimization.batch_size, 1e-9);
  EXPECT_EQ(config.optimization.num_warmup_steps, 0.9);
  EXPECT_EQ(recipe.ema, 0);
  config = config_of({"--recipe", "modern", "--steps", "500"});
  follow_length(config, 100, /*kept_side=*/0, /*num_ranks=*/1);
  EXPECT_EQ(config.optimization.learning_rate, 0.001 * config.optimization.batch_size);
  EXPECT_EQ(recipe.ema, 0);
  config = config_of({});
  follow_length(config, 5000, /*kept_side=*/32, /*num_ranks=*/1);
  EXPECT_EQ(config.effective_options, config_of({}).effective_options);
}

TEST(RepeatText, IsAConfigFileOfWhatIsGiven) {
  const TrainConfig config =
      config_of({"--learning-rate", "0.05", "--epochs", "7", "--log-path", "somewhere",
                 "--checkpoint-path", "c", "--time-limit", "30min", "--batch-size", "16"});
  const std::string text =
      repeat_text(config, {{"epochs", "3", "that fit"}, {"steps", "40", "were made"}});
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
    EXPECT_NE(repeat_text(config_of({std::string("--") + option, value}), {}).find(line),
              std::string::npos)
        << line;
    EXPECT_EQ(repeat_text(config_of({}), {}).find(line), std::string::npos) << line;
  }
}

TEST(OptionsInEffect, AreWhatARunHasSettled) {
  const OptionTexts options = {{"auto", ""}, {"epochs", "5"}, {"learning-rate", "0.001"}};
  const std::vector<Choice> choices = {{"learning-rate", "0.0012", "for sgd"}};
  EXPECT_EQ(options_in_effect(options, choices, 0),
            (OptionTexts{{"auto", ""}, {"epochs", "5"}, {"learning-rate", "0.0012"}}));
  EXPECT_EQ(options_in_effect(options, {}, 2),
            (OptionTexts{{"auto", ""}, {"epochs", "2"}, {"learning-rate", "0.001"}}));
}

TEST(RepeatText, KeepsPathsAsTheyAre) {
  for (const std::string path : {"a b: #c", "it's", "\"quoted\"\\", "null",
                                 "photos \xc3\xa9t\xc3\xa9", "-dash", "two\nlines"}) {
    TrainConfig config = config_of({});
    for (auto& [name, text] : config.effective_options)
      if (name == "train-data-path") text = path;
    EXPECT_EQ(read_back(repeat_text(config, {})).data.train_path, path);
  }
}

TEST(RepeatText, HasNoSecretOfAUrl) {
  TrainConfig config = config_of({});
  config.given.emplace_back("weights");
  config.data.network.weights = "https://host/w.pth?signature=word";
  for (auto& [name, text] : config.effective_options)
    if (name == "weights") text = "https://host/w.pth?…";
  const std::string text = repeat_text(config, {});
  EXPECT_EQ(text.find("word"), std::string::npos) << text;
  EXPECT_NE(text.find("\n# weights: https://host/w.pth?…"), std::string::npos) << text;
  EXPECT_TRUE(read_back(text).data.network.weights.empty());
  const std::string cached =
      repeat_text(config, {{"weights", "/cache/w.pth", "downloaded from https://host/w.pth?…"}});
  EXPECT_NE(cached.find("\nweights: /cache/w.pth  # "), std::string::npos) << cached;
}

TEST(RepeatText, NamesAChoiceWithoutAWordInAComment) {
  const std::string text =
      repeat_text(config_of({}), {{"image-size", "", "32x32, all images have this size"}});
  EXPECT_NE(text.find("\n# image-size: 32x32"), std::string::npos) << text;
  EXPECT_EQ(read_back(text).data.image_size, 0);
}

}  // namespace
}  // namespace kiln
