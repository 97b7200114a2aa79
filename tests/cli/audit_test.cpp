#include <gtest/gtest.h>

#include "cli/run_config.h"
#include "parse.h"

namespace kiln {
namespace {

Words audit(const Words& more) {
  Words words = {"audit", "--data-path", "d", "--output-path", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Audit, TakesAModelOrANetworkAndItsWeights) {
  const auto with_model = parse_as<AuditConfig>(audit({"--trained-model-path", "m"}));
  EXPECT_EQ(with_model.trained_model_path, "m");
  EXPECT_EQ(with_model.folds, 5);
  EXPECT_EQ(with_model.top, 200);
  const auto with_weights =
      parse_as<AuditConfig>(audit({"--model-name=resnet18", "--weights=w", "--folds=3"}));
  EXPECT_EQ(with_weights.model_name, "resnet18");
  EXPECT_EQ(with_weights.weights, "w");
  EXPECT_EQ(with_weights.folds, 3);
  EXPECT_EQ(faults(audit({})).size(), 1U);
  EXPECT_EQ(faults(audit({"--model-name=resnet18"})).size(), 1U);
  EXPECT_EQ(faults(audit({"--trained-model-path=m", "--weights=w"})).size(), 1U);
}

TEST(Audit, WritesIntoAFolderOfItsOwn) {
  const auto with = [](const std::string& output) {
    return faults({"audit", "--data-path=d", "--trained-model-path=m", "--output-path=" + output})
        .size();
  };
  EXPECT_EQ(with("o"), 0U);
  EXPECT_EQ(with("d/o"), 1U);
  EXPECT_EQ(faults(audit({"--trained-model-path=m", "--valid-data-path=o/v"})).size(), 1U);
  EXPECT_EQ(parse_as<AuditConfig>(audit({"--trained-model-path=m", "--valid-data-path=v"}))
                .valid_data_path,
            "v");
  EXPECT_EQ(with("m"), 1U);
}

TEST(Audit, RefusesWhatIsNoPattern) {
  EXPECT_NE(fault(audit({"--trained-model-path=m", "--group-by=("})).find("--group-by"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
