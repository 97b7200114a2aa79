// --auto, and when it is on by default.
#include <gtest/gtest.h>

#include "cli/parse.h"

namespace kiln {
namespace {

Words photos(const Words& more) {
  Words words = {"train",    "--data-path",          "p", "--model-name",
                 "resnet18", "--trained-model-path", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

AutoChoice auto_of(const Words& words) {
  return parse_as<TrainConfig>(words).optimization.automatic;
}

TEST(Auto, IsOnByDefaultForOneDatasetWithWeights) {
  EXPECT_EQ(auto_of(photos({"--weights=w.pth"})), AutoChoice::kIfFewImages);
  EXPECT_EQ(auto_of(photos({"--weights=w.pth", "--time-limit=10min", "--batch-size=8",
                            "--image-size=64", "--patience=9", "--class-weights=sqrt"})),
            AutoChoice::kIfFewImages);
  EXPECT_EQ(auto_of(photos({})), AutoChoice::kNo);
  EXPECT_EQ(auto_of(train()), AutoChoice::kNo);
  EXPECT_TRUE(parse_as<TrainConfig>(train()).settings.of("auto").reason.empty());
}

TEST(Auto, IsOffWhereAnOptionIsGivenThatItDecides) {
  for (const char* option :
       {"--freeze=none", "--freeze=backbone", "--epochs=5", "--steps=9", "--learning-rate=0.1",
        "--head-learning-rate=0.1", "--augment=none", "--num-warmup-steps=1"}) {
    const auto config = parse_as<TrainConfig>(photos({"--weights=w.pth", option}));
    EXPECT_EQ(config.optimization.automatic, AutoChoice::kNo) << option;
    const std::string reason = config.settings.of("auto").reason;
    EXPECT_TRUE(std::string(option).starts_with(reason.substr(0, reason.find(' ')))) << reason;
  }
  EXPECT_EQ(auto_of(photos({"--weights=w.pth", "--auto=False"})), AutoChoice::kNo);
}

TEST(Auto, TakesWhatIsGivenBesideIt) {
  const auto config = parse_as<TrainConfig>(
      train({"--auto=true", "--learning-rate=0.1", "--epochs=3", "--augment=crop"}));
  EXPECT_EQ(config.optimization.automatic, AutoChoice::kYes);
  EXPECT_TRUE(config.settings.is_given("learning-rate"));
  EXPECT_TRUE(config.settings.is_given("augment"));
  EXPECT_FALSE(parse_as<TrainConfig>(train({"--auto=True"})).settings.is_given("augment"));
}

TEST(Auto, RefusesWhatItDecidesAndWhatItCannotDo) {
  for (const Words& words :
       {train({"--auto=True", "--freeze=none"}), train({"--auto=True", "--sync-batch-norm"}),
        train({"--auto=True", "--shard-by=none"}), photos({"--auto=True"}), train({"--auto"}),
        train({"--auto=perhaps"})})
    EXPECT_EQ(faults(words).size(), 1U) << words.back();
  EXPECT_EQ(faults(train({"--auto=True", "--folds=5", "--freeze=backbone"})).size(), 2U);
}

TEST(EffectiveOptions, HaveNoSecretOfAUrl) {
  const TrainConfig config =
      parse_as<TrainConfig>(photos({"--weights=https://host/w.pth?signature=word"}));
  EXPECT_EQ(config.data.network.weights, "https://host/w.pth?signature=word");
  for (const auto& [name, text] : config.settings.texts()) {
    EXPECT_EQ(text.find("signature"), std::string::npos) << name;
    EXPECT_TRUE(name != "weights" || text == "https://host/w.pth?…") << text;
  }
}

}  // namespace
}  // namespace kiln
