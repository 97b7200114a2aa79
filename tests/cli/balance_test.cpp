// --augment, and the options for classes of different sizes.
#include <gtest/gtest.h>

#include <string>

#include "cli/parse.h"

namespace kiln {
namespace {

TEST(AugmentOption, IsANameOrAList) {
  const auto augment = [](const char* text) {
    return parse_as<TrainConfig>(train({"--augment", text})).data.augment;
  };
  EXPECT_EQ(parse_as<TrainConfig>(train()).data.augment, Augment::kNone);
  EXPECT_EQ(augment("strong"), Augment::kStrong);
  EXPECT_EQ(augment("flip,crop"), Augment::kStandard);
  EXPECT_EQ(augment_name(augment("color,vflip")), "vflip,color");
  EXPECT_TRUE(fault(train({"--augment", "flip,flop"})).starts_with("--augment contains 'flop', "));
  EXPECT_EQ(fault(train({"--augment", "flip,crop,flip"})),
            "--augment contains 'flip' twice: list each operation once.");
  EXPECT_EQ(fault(train({"--cache=decoded", "--augment=vflip,rotate90,color,trivial,erase"})),
            "no fault");
  EXPECT_TRUE(fault(train({"--cache=decoded", "--augment=crop"})).starts_with("--cache decoded"));
}

TEST(BalanceOptions, AreNoneByDefault) {
  const auto plain = parse_as<TrainConfig>(train()).optimization;
  EXPECT_EQ(plain.class_weights, ClassWeights::kNone);
  EXPECT_EQ(plain.sample, Sampling::kShuffle);
  EXPECT_EQ(plain.best_by, BestBy::kTop1);
  const auto weighted =
      parse_as<TrainConfig>(train({"--class-weights=sqrt", "--best-by=macro_recall"})).optimization;
  EXPECT_EQ(weighted.class_weights, ClassWeights::kSqrt);
  EXPECT_EQ(weighted.best_by, BestBy::kMacroRecall);
  const auto drawn =
      parse_as<TrainConfig>(train({"--sample=balanced", "--best-by=loss"})).optimization;
  EXPECT_EQ(drawn.sample, Sampling::kBalanced);
  EXPECT_EQ(drawn.best_by, BestBy::kLoss);
}

TEST(BalanceOptions, ExcludeEachOther) {
  const std::string twice = fault(train({"--sample=balanced", "--class-weights=balanced"}));
  EXPECT_NE(twice.find("use one of the two"), std::string::npos) << twice;
  EXPECT_EQ(fault(train({"--sample=balanced", "--class-weights=none"})), "no fault");
  const std::string last = fault(train({"--save=last", "--best-by=loss"}));
  EXPECT_TRUE(last.starts_with("--best-by chooses")) << last;
  EXPECT_EQ(fault(train({"--save=last", "--best-by=top1"})), "no fault");
}

TEST(TaskOption, DecidesWhatTheBestEpochIsJudgedBy) {
  const auto several = parse_as<TrainConfig>(train({"--task=multi-label"}));
  EXPECT_EQ(several.data.records.task, TaskKind::kMultiLabel);
  EXPECT_EQ(several.optimization.best_by, BestBy::kMap);
  EXPECT_EQ(parse_as<TrainConfig>(train({"--task=multi-label", "--best-by=macro-f1"}))
                .optimization.best_by,
            BestBy::kMacroF1);
  EXPECT_EQ(fault(train({"--task=multi-label", "--save=last"})), "no fault");
  for (const char* unfit :
       {"--best-by=top1", "--best-by=macro-recall", "--sample=balanced", "--auto=True",
        "--explain=maps", "--folds=3", "--labels=l.csv", "--shard-by=host", "--steps-per-epoch=9"})
    EXPECT_NE(fault(train({"--task=multi-label", unfit})).find("--task is multi-label"),
              std::string::npos)
        << unfit;
  EXPECT_NE(fault(train({"--best-by=map"})).find("--task multi-label"), std::string::npos);
}

}  // namespace
}  // namespace kiln
