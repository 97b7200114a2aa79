// --epochs, --steps and --time-limit.
#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

OptimizationConfig length(const Words& more) {
  return parse_as<TrainConfig>(train(more)).optimization;
}

std::string epochs_in_effect(const Words& more) {
  for (const auto& [name, text] : parse_as<TrainConfig>(train(more)).settings.texts())
    if (name == "epochs") return text;
  return {};
}

TEST(Length, IsThatOfTheEpochsByDefault) {
  const OptimizationConfig config = length({});
  EXPECT_EQ(config.epochs, 5);
  EXPECT_EQ(config.steps, 0);
  EXPECT_EQ(config.time_limit_s, 0);
}

TEST(TimeLimit, ReadsTimesWithTheirUnit) {
  EXPECT_EQ(length({"--time-limit=5s"}).time_limit_s, 5);
  EXPECT_EQ(length({"--time-limit=30min"}).time_limit_s, 1800);
  EXPECT_EQ(length({"--time-limit=2h"}).time_limit_s, 7200);
}

TEST(TimeLimit, AllowsMoreEpochsThanTheDefault) {
  EXPECT_EQ(length({"--time-limit=5s"}).epochs, kMaxEpochsInTime);
  EXPECT_EQ(epochs_in_effect({"--time-limit=5s"}), "90");
  EXPECT_EQ(length({"--time-limit=5s", "--epochs=3"}).epochs, 3);
  EXPECT_EQ(epochs_in_effect({"--time-limit=5s", "--epochs=3"}), "3");
  EXPECT_EQ(epochs_in_effect({}), "5");
}

TEST(TimeLimit, RefusesWhatIsNoTime) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "30min"},        {"soon", "30min"},     {"3epochs", "s, min or h"},
      {"-1s", "30min"},     {"5", "a unit"},       {"0.5h", "whole"},
      {"0s", "at least 1"}, {"00h", "at least 1"}, {"1h,30min", "30min"},
  };
  for (const auto& [text, advice] : cases) {
    ErrorCode code{};
    const std::string message = fault(train({"--time-limit=" + text}), &code);
    EXPECT_EQ(code, ErrorCode::kParameterParsing) << text;
    EXPECT_TRUE(message.starts_with("--time-limit ")) << message;
    EXPECT_NE(message.find(advice), std::string::npos) << text << ": " << message;
  }
}

TEST(TimeLimit, IsOneSettingInEveryUnit) {
  const auto changes = [](const char* before, const char* now) {
    return changed_options(parse_as<TrainConfig>(train({"--time-limit", before})).settings.texts(),
                           parse_as<TrainConfig>(train({"--time-limit", now})).settings.texts())
        .size();
  };
  EXPECT_EQ(changes("30min", "1800s"), 0U);
  EXPECT_EQ(changes("30min", "31min"), 1U);
}

TEST(Steps, AreAtLeastOne) {
  EXPECT_EQ(length({"--steps=7"}).steps, 7);
  ErrorCode code{};
  fault(train({"--steps=0"}), &code);
  EXPECT_EQ(code, ErrorCode::kGreaterThan);
}

}  // namespace
}  // namespace kiln
