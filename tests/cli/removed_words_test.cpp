// What earlier builds had, in command lines, --config files and checkpoints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/parse.h"

namespace kiln {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RemovedWords, AValueIsNamedWhereItIsGiven) {
  ErrorCode code{};
  const std::string text = fault(train({"--optimizer", "LARS"}), &code);
  EXPECT_TRUE(contains(text, "--optimizer LARS was removed; ")) << text;
  EXPECT_EQ(exit_code(code), 2);
  EXPECT_EQ(parse_as<TrainConfig>(train({"--optimizer", "adamw"})).optimization.recipe.optimizer,
            "adamw");
}

TEST(RemovedWords, AValueOfAFileIsNamedWithItsLine) {
  const std::string path = testing::TempDir() + "kiln-removed-words";
  std::ofstream(path) << "epochs: 2\noptimizer: lars\n";
  const std::string text = fault(train({"--config", path}));
  EXPECT_TRUE(contains(text, "--optimizer (line 2 of '" + path + "') lars was removed; ")) << text;
  std::filesystem::remove(path);
}

TEST(RemovedWords, ACheckpointIsUsedUnlessItsRunUsedThem) {
  OptionTexts options = parse_as<TrainConfig>(train()).effective_options;
  EXPECT_TRUE(removed_settings(options).empty());
  options.emplace_back("optimizer", "lars");
  const std::vector<std::string> settings = removed_settings(options);
  ASSERT_EQ(settings.size(), 1U);
  EXPECT_TRUE(settings[0].starts_with("--optimizer lars was removed; ")) << settings[0];
}

}  // namespace
}  // namespace kiln
