// The options of a network that is trained only in part.
#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/parse.h"

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
  const OptimizationConfig stages =
      parse_as<TrainConfig>(train({"--freeze=Stage3", "--layer-decay=0.75"})).optimization;
  EXPECT_EQ(stages.freeze, static_cast<Freeze>(3));
  EXPECT_EQ(stages.layer_decay, 0.75);
}

TEST(FineTuning, KnowsWhatWasAskedForAndIsNotUsual) {
  Words unusual;
  const auto config =
      parse_as<TrainConfig>(train({"--momentum=0.5", "--epochs=5", "--recipe=modern"}));
  for (const Setting& setting : config.settings)
    if (setting.origin >= Origin::kFile && !setting.is_default())
      unusual.push_back(setting.option->name);
  EXPECT_EQ(unusual, (Words{"untrained-model-path", "train-data-path", "valid-data-path",
                            "trained-model-path", "recipe", "momentum"}))
      << "neither defaults nor what --recipe sets";
}

TEST(FineTuning, RefusesWhatDoesNotGoTogether) {
  for (const Words& words :
       {Words{"--folds=5"}, Words{"--folds=5", "--freeze=norm"},
        Words{"--folds=5", "--freeze=backbone", "--augment=flip"},
        Words{"--folds=1", "--freeze=backbone"},
        Words{"--folds=5", "--freeze=backbone", "--shard-by=none"},
        Words{"--freeze=norm", "--sync-batch-norm"}, Words{"--freeze=stage0"},
        Words{"--freeze=stage17"}, Words{"--layer-decay=0"}, Words{"--layer-decay=1.01"}})
    EXPECT_EQ(faults(train(words)).size(), 1U) << words.back();
}

TEST(FineTuning, SynchronizesTheNormsThatStagesLeave) {
  EXPECT_TRUE(faults(train({"--freeze=stage1", "--sync-batch-norm"})).empty());
}

TEST(FineTuning, RefusesFoldsOfATrainedNetwork) {
  for (const Words& words :
       {Words{}, Words{"--freeze=norm"}, Words{"--freeze=backbone", "--recipe=modern"}}) {
    Words line = {"train",    "--data-path",          "p", "--model-name",
                  "resnet18", "--trained-model-path", "o", "--folds=3"};
    line.insert(line.end(), words.begin(), words.end());
    EXPECT_NE(fault(line).find("--freeze backbone and --augment none"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln
