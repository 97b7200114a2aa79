// --augment, and the options for classes of different sizes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>

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
  EXPECT_EQ(plain.class_weights.rule, ClassWeights::kNone);
  EXPECT_EQ(plain.sample, Sampling::kShuffle);
  EXPECT_EQ(plain.best_by, BestBy::kTop1);
  const auto weighted =
      parse_as<TrainConfig>(train({"--class-weights=sqrt", "--best-by=macro_recall"})).optimization;
  EXPECT_EQ(weighted.class_weights.rule, ClassWeights::kSqrt);
  EXPECT_EQ(weighted.best_by, BestBy::kMacroRecall);
  const auto drawn =
      parse_as<TrainConfig>(train({"--sample=balanced", "--best-by=loss"})).optimization;
  EXPECT_EQ(drawn.sample, Sampling::kBalanced);
  EXPECT_EQ(drawn.best_by, BestBy::kLoss);
}

using Weights = std::map<std::string, double>;

ClassWeighting weighting_of(const std::string& text) {
  return parse_as<TrainConfig>(train({"--class-weights", text})).optimization.class_weights;
}

TEST(BalanceOptions, TakeAListOfWeights) {
  const ClassWeighting weights = weighting_of("cat=1,dog=2.5, a=b=1e-3,bee, wild=4");
  EXPECT_EQ(weights.rule, ClassWeights::kGiven);
  EXPECT_EQ(weights.given, (Weights{{"cat", 1}, {"dog", 2.5}, {"a=b", 1e-3}, {"bee, wild", 4}}));
  for (const auto& [text, name] :
       {std::pair{"cat=0", "'cat'"}, std::pair{"cat=-1", "'cat'"}, std::pair{"cat=1,dog", "'dog'"},
        std::pair{"cat=inf", "'inf'"}, std::pair{"cat=nan", "'nan'"}, std::pair{"cat=1x", "'1x'"},
        std::pair{"cat=1,dog=2,cat=1", "'cat'"}, std::pair{"halved", "'halved'"}}) {
    const std::string found = fault(train({"--class-weights", text}));
    EXPECT_NE(found.find("--class-weights"), std::string::npos) << text;
    EXPECT_NE(found.find(name), std::string::npos) << found;
  }
}

TEST(BalanceOptions, TakeAFileOfWeights) {
  const std::string path = testing::TempDir() + "kiln-weights.csv";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write("class,weight\ncat,1\n\"bee, wild\",0.5\n");
  const TrainConfig config = parse_as<TrainConfig>(train({"--class-weights", path}));
  EXPECT_EQ(config.optimization.class_weights.given, (Weights{{"cat", 1}, {"bee, wild", 0.5}}));
  EXPECT_EQ(config.settings.text("class-weights"), "bee, wild=0.5,cat=1");
  write("cat,1\nclass,2\n");
  EXPECT_EQ(weighting_of(path).given, (Weights{{"cat", 1}, {"class", 2}}));
  for (const char* text : {"cat,1,2\n", "cat\n", "cat,none\n", "\"cat,1\n"}) {
    write(text);
    EXPECT_NE(fault(train({"--class-weights", path})).find("--class-weights"), std::string::npos)
        << text;
  }
  EXPECT_NE(fault(train({"--class-weights", path + ".csv"})).find("cannot be read"),
            std::string::npos);
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
