#include "cli/settings.h"

#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

constexpr std::size_t kNumOrigins = kOriginNames.size();

Origin origin(std::size_t place) {
  return static_cast<Origin>(place);
}

TEST(Settings, AreReplacedInTheOrderOfTheirOrigins) {
  std::string order;
  for (const std::string_view name : kOriginNames)
    order += (order.empty() ? "" : " < ") + std::string(name);
  EXPECT_EQ(order, "default < recipe < length of the run < auto < checkpoint < file < given");
  EXPECT_EQ(kNumOrigins, static_cast<std::size_t>(Origin::kGiven) + 1);
  const Settings defaults(*find_command("train"));
  for (std::size_t first = 0; first < kNumOrigins; ++first)
    for (std::size_t second = 0; second < kNumOrigins; ++second) {
      const Settings settings =
          defaults.with("epochs", "1", origin(first)).with("epochs", "2", origin(second));
      EXPECT_EQ(settings.text("epochs"), second >= first ? "2" : "1")
          << kOriginNames[second] << " after " << kOriginNames[first];
      EXPECT_EQ(settings.of("epochs").origin, origin(std::max(first, second)));
    }
}

TEST(Settings, AreFoundInPlaceOfAnyOrigin) {
  const Settings given = parse_as<TrainConfig>(train({"--epochs", "7"})).settings;
  const Settings found = given.found("epochs", "3", "that fit");
  EXPECT_EQ(found.text("epochs"), "3");
  EXPECT_TRUE(found.of("epochs").is_found());
  EXPECT_EQ(given.text("epochs"), "7") << "they are not changed";
  EXPECT_FALSE(given.of("epochs").is_found());
  EXPECT_EQ(found.replaced(given.of("epochs")).text("epochs"), "7");
}

TEST(Settings, SayWhereAValueIsFrom) {
  const Settings settings =
      parse_as<TrainConfig>(train({"--recipe", "modern", "--mixup", "0.3"})).settings;
  EXPECT_EQ(settings.of("batch-size").origin, Origin::kDefault);
  EXPECT_EQ(settings.of("ema").origin, Origin::kRecipe);
  EXPECT_EQ(settings.of("ema").reason, "of --recipe modern");
  EXPECT_EQ(settings.of("mixup").origin, Origin::kGiven);
}

// What --recipe modern leaves to the length of the run.
TEST(SettingsByLength, SetWhatTheLineLeavesOpen) {
  const auto by_length = [](const Words& more, std::int64_t steps, int kept_side, int num_ranks) {
    const auto asked = parse_as<TrainConfig>(train(more));
    return bound(asked, with_length(asked.settings, asked, steps, kept_side, num_ranks));
  };
  TrainConfig config =
      by_length({"--recipe", "modern", "--epochs", "15", "--mixup", "0.3"}, 100, 32, 1);
  const RecipeConfig& recipe = config.optimization.recipe;
  EXPECT_EQ(config.optimization.learning_rate, 0.001 * config.optimization.batch_size);
  EXPECT_EQ(recipe.weight_decay, 0.005);
  EXPECT_EQ(config.optimization.num_warmup_steps, 4.5);
  EXPECT_NEAR(recipe.ema, 1 - 1 / 150.0, 1e-6);
  EXPECT_EQ(recipe.mixup, 0.3);
  EXPECT_EQ(config.data.augment, parse_augment("flip"));
  EXPECT_EQ(config.settings.text("augment"), "flip");
  EXPECT_EQ(config.settings.of("augment").origin, Origin::kLength);
  config = by_length({"--recipe", "modern", "--epochs", "90", "--batch-size", "256"}, 5000, 0, 1);
  EXPECT_EQ(config.optimization.learning_rate, 0.256);
  EXPECT_EQ(recipe.weight_decay, 5e-5);
  EXPECT_EQ(config.optimization.num_warmup_steps, 5);
  EXPECT_EQ(recipe.ema, 0.9999);
  EXPECT_EQ(recipe.mixup, 0.1);
  EXPECT_EQ(config.data.augment, parse_augment("standard"));
  // As many images a step on eight ranks: the same rate, by --lr-scaling linear, and decay.
  config = by_length({"--recipe", "modern", "--epochs", "90", "--batch-size", "32"}, 5000, 0, 8);
  EXPECT_EQ(config.optimization.learning_rate, 0.032);
  EXPECT_EQ(recipe.weight_decay, 5e-5);
  config = by_length({"--recipe", "modern", "--steps", "300"}, 100, 0, 1);
  EXPECT_NEAR(config.optimization.learning_rate, 0.0003 * config.optimization.batch_size, 1e-9);
  EXPECT_EQ(config.optimization.num_warmup_steps, 0.9);
  EXPECT_EQ(recipe.ema, 0);
  config = by_length({"--recipe", "modern", "--steps", "500"}, 100, 0, 1);
  EXPECT_EQ(config.optimization.learning_rate, 0.001 * config.optimization.batch_size);
  EXPECT_EQ(recipe.ema, 0);
  EXPECT_EQ(by_length({}, 5000, 32, 1).settings.texts(),
            parse_as<TrainConfig>(train()).settings.texts());
}

TEST(SettingsByLength, StayThoseOfACheckpoint) {
  const auto asked = parse_as<TrainConfig>(train({"--recipe", "modern", "--mixup", "0.3"}));
  const Settings before =
      with_checkpoint(asked.settings, {{"ema", "0.5"}, {"mixup", "0.7"}, {"epochs", "9"}});
  EXPECT_EQ(before.of("ema").origin, Origin::kCheckpoint);
  const Settings settings = with_length(before, asked, 100, 0, 1);
  EXPECT_EQ(settings.text("ema"), "0.5");
  EXPECT_EQ(settings.text("mixup"), "0.3") << "it is given";
  EXPECT_EQ(settings.of("epochs").origin, Origin::kDefault);
  EXPECT_FALSE(settings.of("ema").is_found()) << "repeat.yaml has it without a comment";
}

}  // namespace
}  // namespace kiln
