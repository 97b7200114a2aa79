// The options of a network that is trained only in part.
#include <gtest/gtest.h>

#include "config/parse.h"

namespace kiln {
namespace {

TEST(FineTuning, IsOffByDefault) {
  const OptimizationConfig config = parse_as<TrainConfig>(train()).optimization;
  EXPECT_EQ(config.freeze, Freeze::kNone);
  EXPECT_FALSE(config.head_learning_rate);
  EXPECT_EQ(config.folds, 0);
}

TEST(FineTuning, TakesItsOptions) {
  const OptimizationConfig config =
      parse_as<TrainConfig>(train({"--freeze", "backbone", "--folds=5"})).optimization;
  EXPECT_EQ(config.freeze, Freeze::kBackbone);
  EXPECT_EQ(config.folds, 5);
  const OptimizationConfig norm =
      parse_as<TrainConfig>(train({"--freeze=norm", "--head-learning-rate=0.1"})).optimization;
  EXPECT_EQ(norm.freeze, Freeze::kNorm);
  EXPECT_EQ(norm.head_learning_rate, 0.1);
}

TEST(FineTuning, RefusesWhatDoesNotGoTogether) {
  for (const Words& words : {Words{"--folds=5"}, Words{"--folds=5", "--freeze=norm"},
                             Words{"--folds=5", "--freeze=backbone", "--augment=flip"},
                             Words{"--folds=1", "--freeze=backbone"},
                             Words{"--folds=5", "--freeze=backbone", "--shard-by=none"},
                             Words{"--freeze=norm", "--sync-batch-norm"}})
    EXPECT_EQ(faults(train(words)).size(), 1U) << words.back();
}

Words of_one_dataset(const Words& more) {
  Words words = {"train",    "--data-path",          "p", "--model-name",
                 "resnet18", "--trained-model-path", "o", "--folds=3"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(FineTuning, TrainsANetworkForEachFold) {
  for (const Words& words : {Words{}, Words{"--freeze=norm"}, Words{"--recipe=modern"},
                             Words{"--freeze=backbone", "--augment=flip"}, Words{"--save=last"}})
    EXPECT_EQ(parse_as<TrainConfig>(of_one_dataset(words)).optimization.folds, 3);
}

TEST(FineTuning, RefusesToChooseByImagesThatJudge) {
  for (const char* option : {"--time-limit=1min", "--steps=9", "--save=best", "--best-by=loss",
                             "--patience=3", "--stop-when=best", "--split=s.csv"})
    EXPECT_EQ(faults(of_one_dataset({option})).size(), 1U) << option;
  EXPECT_EQ(parse_as<TrainConfig>(of_one_dataset({"--freeze=backbone", "--split=s.csv"}))
                .optimization.folds,
            3);
}

}  // namespace
}  // namespace kiln
