#include <gtest/gtest.h>

#include "cli/parse.h"

namespace kiln {
namespace {

Words evaluate(const Words& more) {
  Words words = {"evaluate", "--data-path", "d", "--output-path", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Evaluate, TakesOneModelOrSeveral) {
  using Paths = std::vector<std::string>;
  const auto models = [](const Words& words) {
    return parse_as<EvaluateConfig>(evaluate(words)).trained_model_paths;
  };
  EXPECT_EQ(models({"--trained-model-path=a"}), Paths{"a"});
  EXPECT_EQ(models({"--trained-model-path=a", "--trained-model-path", "b"}), (Paths{"a", "b"}));
  EXPECT_EQ(parse_as<EvaluateConfig>(evaluate({"--trained-model-path=a"})).top_k, 5);
  EXPECT_EQ(models({}), Paths{"model"});
}

TEST(Evaluate, WritesIntoAFolderOfItsOwn) {
  const auto with = [](const Words& words) {
    Words all = {"evaluate", "--data-path", "d"};
    all.insert(all.end(), words.begin(), words.end());
    return faults(all).size();
  };
  EXPECT_EQ(with({"--trained-model-path=m", "--output-path=o"}), 0u);
  EXPECT_EQ(with({"--trained-model-path=m", "--output-path=d/o"}), 1u);
  EXPECT_EQ(with({"--trained-model-path=m", "--output-path=m"}), 1u);
  EXPECT_EQ(with({"--trained-model-path=m", "--trained-model-path=o/2", "--output-path=o"}), 1u);
}

TEST(Evaluate, ExplainsIntoAFolderOfItsOwn) {
  const auto with = [](const Words& words) {
    Words all = evaluate({"--trained-model-path=m", "--trained-model-path=n"});
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  EXPECT_EQ(parse_as<EvaluateConfig>(with({})).explain, "");
  EXPECT_EQ(parse_as<EvaluateConfig>(with({"--explain=e"})).explain, "e");
  for (const char* wrong : {"--explain=d", "--explain=o", "--explain=o/e", "--explain=n/e"})
    EXPECT_NE(fault(with({wrong})).find("--explain"), std::string::npos) << wrong;
  EXPECT_EQ(faults(with({"--explain=."})).size(), 4u);  // it contains all of them
}

}  // namespace
}  // namespace kiln
