// What earlier builds had, in command lines, --config files and checkpoints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RemovedWords, AValueIsNamedWhereItIsGiven) {
  ErrorCode code{};
  const std::string text = fault(train({"--optimizer", "LARS"}), &code);
  EXPECT_TRUE(has(text, "--optimizer LARS was removed; ")) << text;
  EXPECT_EQ(exit_code(code), 2);
  EXPECT_EQ(parse_as<TrainConfig>(train({"--optimizer", "adamw"})).optimization.recipe.optimizer,
            "adamw");
}

TEST(RemovedWords, AValueOfAFileIsNamedWithItsLine) {
  const std::string path = testing::TempDir() + "kiln-removed-words";
  std::ofstream(path) << "epochs: 2\noptimizer: lars\n";
  const std::string text = fault(train({"--config", path}));
  EXPECT_TRUE(has(text, "--optimizer (line 2 of '" + path + "') lars was removed; ")) << text;
  std::filesystem::remove(path);
}

TEST(RemovedWords, AnOptionIsNamedAndItsValueSkipped) {
  ErrorCode code{};
  std::string text = fault(train({"--gradient_dtype", "bf16", "--epochs=3"}), &code);
  EXPECT_TRUE(has(text, "--gradient_dtype was removed; ")) << text;
  EXPECT_EQ(exit_code(code), 2);
  // The path after a switch is none of its values.
  text = fault({"train", "--mlflow-log-model", "no-photos"});
  EXPECT_TRUE(has(text, "--mlflow-log-model was removed; ")) << text;
  EXPECT_TRUE(has(text, "'no-photos' does not exist")) << text;
}

TEST(RemovedWords, AnOptionOfAFileIsNamedWithItsLine) {
  const std::string path = testing::TempDir() + "kiln-removed-option";
  std::ofstream(path) << "epochs: 2\nzero_init_residual: True\n";
  const std::string text = fault(train({"--config", path}));
  EXPECT_TRUE(has(text, "'zero_init_residual' (line 2 of '" + path + "') was removed; ")) << text;
  std::filesystem::remove(path);
}

TEST(RemovedWords, AreNoneThatACommandHas) {
  for (const CommandInfo& command : command_table())
    for (const Option& option : command.options)
      EXPECT_EQ(find_removed(command.name, option.name), nullptr)
          << command.name << " --" << option.name;
}

TEST(RemovedWords, ACheckpointIsUsedUnlessItsRunUsedThem) {
  OptionTexts options = parse_as<TrainConfig>(train()).settings.texts();
  EXPECT_TRUE(removed_settings(options).empty());
  options.emplace_back("optimizer", "lars");
  const std::vector<std::string> settings = removed_settings(options);
  ASSERT_EQ(settings.size(), 1U);
  EXPECT_TRUE(settings[0].starts_with("--optimizer lars was removed; ")) << settings[0];
  options = {{"gradient-dtype", "FP32"}, {"image-size", "224"}, {"mlflow-log-model", "True"}};
  EXPECT_TRUE(removed_settings(options).empty());
  options = {{"gradient-dtype", "bf16"}, {"image-size", "128:224"}};
  EXPECT_EQ(removed_settings(options).size(), 2U);
}

}  // namespace
}  // namespace kiln
