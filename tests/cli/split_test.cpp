// --data-path and what goes with it.
#include <gtest/gtest.h>

#include "parse.h"

namespace kiln {
namespace {

Words split(const Words& more = {}) {
  Words words = {"train", "--untrained-model-path", "u", "--trained-model-path", "o", "--data-path",
                 "d"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(DataPath, StandsForBothDatasets) {
  const DataConfig data = parse_as<TrainConfig>(split()).data;
  EXPECT_EQ(data.split.data_path, "d");
  EXPECT_EQ(data.train_path, "d");
  EXPECT_EQ(data.valid_path, "d");
  EXPECT_DOUBLE_EQ(data.split.valid_fraction, 0.2);
  EXPECT_TRUE(parse_as<TrainConfig>(train()).data.split.data_path.empty());
}

TEST(DataPath, TakesItsOptions) {
  const SplitConfig config = parse_as<TrainConfig>(split({"--valid-fraction", "25%", "--group-by",
                                                          "(p\\d+)_", "--labels", "l.csv"}))
                                 .data.split;
  EXPECT_DOUBLE_EQ(config.valid_fraction, 0.25);
  EXPECT_EQ(config.group_by, "(p\\d+)_");
  EXPECT_EQ(config.labels, "l.csv");
  EXPECT_EQ(parse_as<TrainConfig>(split({"--split", "s.csv"})).data.split.file, "s.csv");
}

TEST(DataPath, IsOneOfTwoForms) {
  EXPECT_EQ(fault(train({"--data-path", "d"})).substr(0, 16), "several faults:\n");
  EXPECT_EQ(faults(train({"--data-path", "d"})).size(), 2U);
  const std::vector<Error> none =
      faults({"train", "--untrained-model-path", "u", "--trained-model-path", "o"});
  ASSERT_EQ(none.size(), 2U);
  EXPECT_TRUE(none[0].message().starts_with("--train-data-path DIR is missing"));
  EXPECT_TRUE(none[0].message().ends_with("add it, or --data-path."));
  for (const char* option : {"--valid-fraction=0.1", "--group-by=a", "--split=s", "--labels=l"})
    EXPECT_NE(fault(train({option})).find("divides one dataset"), std::string::npos) << option;
}

TEST(DataPath, RefusesWhatCannotBe) {
  ErrorCode code = ErrorCode::kUserError;
  EXPECT_NE(fault(split({"--valid-fraction", "1"}), &code).find("nothing to train on"),
            std::string::npos);
  EXPECT_EQ(code, ErrorCode::kNotInRangeValue);
  EXPECT_NE(fault(split({"--valid-fraction", "0"}), &code), "no fault");
  EXPECT_EQ(code, ErrorCode::kGreaterThan);
  EXPECT_NE(fault(split({"--valid-fraction", "1.5"}), &code), "no fault");
  EXPECT_EQ(code, ErrorCode::kLessThanOrEqualTo);
  EXPECT_NE(fault(split({"--group-by", "("})).find("regular expression"), std::string::npos);
  EXPECT_EQ(fault(split({"--group-by="})),
            "--group-by is empty, but must be a regular expression.");
  EXPECT_LT(fault(split({"--group-by", std::string(30'000, '(')})).size(), 600U);
  EXPECT_NE(fault(split({"--split", "s", "--group-by", "a"})).find("omit one"), std::string::npos);
  EXPECT_NE(fault(split({"--shard-by", "none"})).find("whose hosts"), std::string::npos);
  EXPECT_NE(fault(split({"--log-path", "o/logs"})), "no fault");
  EXPECT_NE(fault({"train", "--untrained-model-path", "u", "--trained-model-path", "d/o",
                   "--data-path", "d"})
                .find("is inside --data-path 'd'"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
