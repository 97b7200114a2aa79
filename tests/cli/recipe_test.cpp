// The options of the recipe: ranges, contradictions, and what --recipe sets.
#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

std::string in_line(const Words& line, const std::string& name) {
  for (const auto& [option, text] : parse_as<TrainConfig>(line).settings.texts())
    if (option == name) return text;
  return "no option";
}

std::string effective(const Words& more, const std::string& name) {
  return in_line(train(more), name);
}

TEST(Recipe, IsTheDesignersByDefault) {
  const OptimizationConfig config = parse_as<TrainConfig>(train()).optimization;
  const RecipeConfig usual;
  EXPECT_EQ(config.recipe.optimizer, usual.optimizer);
  EXPECT_EQ(config.recipe.momentum, usual.momentum);
  EXPECT_EQ(config.recipe.weight_decay, usual.weight_decay);
  EXPECT_TRUE(config.recipe.decays_norm_and_bias);
  EXPECT_EQ(config.recipe.schedule, usual.schedule);
  EXPECT_EQ(config.patience, 3);
  EXPECT_EQ(config.recipe.mixup, 0);
  EXPECT_EQ(config.recipe.ema, 0);
}

TEST(Recipe, NumbersBelowAtAndAboveTheirRange) {
  struct Limits {
    const char *flag, *below, *lowest, *highest, *above;
  };
  for (const Limits& bounds : {Limits{"--momentum", "-0.1", "0", "0.999", "1.1"},
                               Limits{"--weight-decay", "-1e-9", "0", "1", "1.01"},
                               Limits{"--clip-norm", "-1", "0", "1000000", "1000001"},
                               Limits{"--ema", "-0.5", "0", "0.99999", "2"},
                               Limits{"--label-smoothing", "-0.1", "0", "0.5", "1.5"},
                               Limits{"--mixup", "-0.2", "0", "100", "100.5"},
                               Limits{"--cutmix", "-1", "0", "100", "101"}}) {
    ErrorCode code{};
    EXPECT_TRUE(fault(train({bounds.flag, bounds.below}), &code)
                    .starts_with(std::string(bounds.flag) + " is " + bounds.below + ", but must"));
    EXPECT_EQ(code, ErrorCode::kGreaterThanOrEqualTo) << bounds.flag;
    EXPECT_EQ(fault(train({bounds.flag, bounds.lowest})), "no fault");
    EXPECT_EQ(fault(train({bounds.flag, bounds.highest})), "no fault");
    fault(train({bounds.flag, bounds.above}), &code);
    EXPECT_EQ(code, ErrorCode::kLessThanOrEqualTo) << bounds.flag;
    fault(train({bounds.flag, "much"}), &code);
    EXPECT_EQ(code, ErrorCode::kParameterParsing) << bounds.flag;
  }
  for (const char* flag : {"--momentum", "--ema", "--label-smoothing"})
    EXPECT_NE(fault(train({flag, "1"})).find("use a smaller number"), std::string::npos);
}

TEST(Recipe, WarmUpMayTakeAPartOfAnEpoch) {
  EXPECT_EQ(
      parse_as<TrainConfig>(train({"--num-warmup-steps", "0.5"})).optimization.num_warmup_steps,
      0.5);
}

TEST(Recipe, MixingNeedsPairs) {
  for (const char* size : {"1", "15"}) {
    const std::string message = fault(train({"--mixup", "0.2", "--batch-size", size}));
    EXPECT_NE(message.find("in pairs, but --batch-size is " + std::string(size)), std::string::npos)
        << message;
  }
  EXPECT_NE(fault(train({"--cutmix", "1", "--batch-size", "1"})).find("--cutmix 0"),
            std::string::npos);
  EXPECT_EQ(fault(train({"--mixup", "0.2", "--batch-size", "2"})), "no fault");
}

TEST(Recipe, FitIsCropWhereImagesDoNotDecide) {
  const auto fit = [](Words more, const Words& others = {}) {
    more.insert(more.end(), others.begin(), others.end());
    return parse_as<TrainConfig>(train(more)).data.fit;
  };
  const Words modern = {"--recipe", "modern"};
  EXPECT_EQ(fit({}), Fit::kCrop);
  EXPECT_EQ(fit({"--fit", "auto"}), Fit::kCrop);
  EXPECT_EQ(fit(modern), std::nullopt);
  EXPECT_EQ(fit(modern, {"--fit", "auto"}), std::nullopt);
  EXPECT_EQ(fit(modern, {"--eval-crop", "auto"}), std::nullopt);
  EXPECT_EQ(fit(modern, {"--eval-crop", "larger"}), Fit::kCrop);
  EXPECT_EQ(fit(modern, {"--eval-resize", "256"}), Fit::kCrop);
  EXPECT_EQ(fit(modern, {"--transform-path", "t"}), Fit::kCrop);
  EXPECT_EQ(fit({"--fit", "pad"}), Fit::kPad);
  EXPECT_EQ(fit(modern, {"--fit", "stretch"}), Fit::kStretch);
}

TEST(Recipe, WholeImagesAreNotCroppedForValidation) {
  for (const char* fit : {"pad", "stretch"}) {
    EXPECT_EQ(fault(train({"--fit", fit, "--recipe", "modern"})), "no fault");
    for (const char* option : {"--eval-crop", "--eval-resize"}) {
      const std::string found = fault(train({"--fit", fit, option, "256"}));
      EXPECT_TRUE(found.starts_with(option)) << found;
      EXPECT_NE(found.find(std::string("--fit ") + fit), std::string::npos) << found;
    }
    EXPECT_NE(fault(train({"--fit", fit, "--transform-path", "t"})), "no fault");
  }
  EXPECT_EQ(fault(train({"--fit", "crop", "--eval-crop", "256"})), "no fault");
}

TEST(Recipe, ATimeLimitNeedsAFirstEpochThatDoesNotDependOnTheirNumber) {
  EXPECT_NE(fault(train({"--time-limit", "1h", "--lr-schedule", "cosine"})), "no fault");
  EXPECT_EQ(
      fault(train({"--time-limit", "1h", "--lr-schedule", "cosine", "--num-warmup-steps", "1"})),
      "no fault");
  EXPECT_EQ(fault(train({"--time-limit", "1h", "--lr-schedule", "constant"})), "no fault");
  EXPECT_EQ(fault(train({"--time-limit", "1h", "--recipe", "modern"})), "no fault");
}

TEST(Modern, SetsWhatTheLineDoesNot) {
  const Words modern = {"--recipe", "modern", "--batch-size", "64", "--epochs", "30"};
  EXPECT_EQ(effective(modern, "learning-rate"), "0.064");
  EXPECT_EQ(effective(modern, "lr-schedule"), "cosine");
  EXPECT_EQ(effective(modern, "num-warmup-steps"), "5");
  EXPECT_EQ(effective(modern, "no-decay"), "none");
  EXPECT_EQ(parse_as<TrainConfig>(train(modern)).optimization.patience, kNoEarlyStop);
  EXPECT_FALSE(parse_as<TrainConfig>(train(modern)).optimization.precision.has_value());
  Words mine = modern;
  mine.insert(mine.end(), {"--mixup", "0", "--precision", "fp32", "--learning-rate", "0.5"});
  EXPECT_EQ(effective(mine, "mixup"), "0");
  EXPECT_EQ(effective(mine, "precision"), "fp32");
  EXPECT_EQ(effective(mine, "learning-rate"), "0.5");
  EXPECT_EQ(effective({"--recipe", "designer"}, "learning-rate"), "0.001");
}

TEST(Modern, FollowsTheNetwork) {
  const auto option = [](const char* network, const char* name) {
    return in_line({"train", "--train-data-path", "t", "--valid-data-path", "v", "--recipe",
                    "modern", "--model-name", network, "--batch-size", "256"},
                   name);
  };
  EXPECT_EQ(option("efficientnet_b0", "optimizer"), "sgd");
  EXPECT_EQ(option("efficientnet_b0", "learning-rate"), "0.256");
  for (const char* network : {"convnext_tiny", "vit_s_16"}) {
    EXPECT_EQ(option(network, "optimizer"), "adamw");
    EXPECT_EQ(option(network, "learning-rate"), "0.001");
    EXPECT_EQ(option(network, "weight-decay"), "0.05");
  }
}

TEST(Modern, FollowsTheOptimizerAndTheEpochs) {
  EXPECT_EQ(effective({"--recipe", "modern", "--optimizer", "adamw"}, "weight-decay"), "0.05");
  const auto rate_of = [](const char* optimizer) {
    return effective({"--recipe", "modern", "--optimizer", optimizer, "--batch-size", "64"},
                     "learning-rate");
  };
  EXPECT_EQ(rate_of("sgd"), "0.064");
  EXPECT_EQ(rate_of("adamw"), "0.0005");
  EXPECT_EQ(effective({"--recipe", "modern", "--epochs", "5"}, "num-warmup-steps"), "1.5");
}

TEST(Modern, CropsWhatIsResizedOrLarge) {
  const auto augment = [](double epochs, int kept_side) {
    for (const auto& [option, text] :
         modern_by_length(OptimizationConfig(), epochs, 1000, kept_side, 1))
      if (option == "augment") return text;
    return std::string("no option");
  };
  EXPECT_EQ(augment(5, 0), "standard");
  EXPECT_EQ(augment(15, 128), "flip");
  EXPECT_EQ(augment(40, 128), "standard");
  EXPECT_EQ(augment(40, 32), "flip");
}

TEST(Modern, FaultsOfWhatItSetsNameIt) {
  const std::string message =
      fault(train({"--recipe", "modern", "--batch-size", "25", "--epochs", "30"}));
  EXPECT_NE(message.find("--mixup mixes"), std::string::npos) << message;
}

// A run that resumes may say the same in other words.
TEST(Modern, IsNoChangeBesideItsOptions) {
  const auto options = [](const Words& more) {
    return parse_as<TrainConfig>(train(more)).settings.texts();
  };
  OptionTexts now = options({"--recipe", "modern"});
  for (auto& [name, text] : now)
    if (name == "recipe") text = "designer";
  const auto changed = changed_options(options({"--recipe", "modern"}), now);
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].option->effect, Effect::kFree);
}

}  // namespace
}  // namespace kiln
