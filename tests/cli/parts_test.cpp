// kiln split.
#include <gtest/gtest.h>

#include "parse.h"

namespace kiln {
namespace {

Words split_words(const Words& more = {}) {
  Words words = {"split", "--src-path", "s", "--tgt-train-path", "a", "--tgt-test-path", "b"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words parts(const Words& more = {}) {
  Words words = {"split", "--src-path", "s", "--output-path", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Split, IsTheDesigners) {
  const auto config = parse_as<SplitImagesConfig>(split_words());
  EXPECT_EQ(config.src_path, "s");
  EXPECT_EQ(config.part_paths, (Words{"a", "b"}));
  EXPECT_EQ(config.part_names, (Words{"train", "test"}));
  ASSERT_EQ(config.fractions.size(), 2U);
  EXPECT_EQ(config.fractions[0], 0.9);
  EXPECT_TRUE(config.stratify);
  EXPECT_FALSE(config.keep_duplicates_together);
  EXPECT_EQ(config.random_seed, 42);
  EXPECT_EQ(parse_as<SplitImagesConfig>(split_words({"--fraction=70%"})).fractions[0], 0.7);
  EXPECT_FALSE(parse_as<SplitImagesConfig>(split_words({"--stratify", "False"})).stratify);
}

TEST(Split, IntoAFolder) {
  const auto two = parse_as<SplitImagesConfig>(parts({"--fraction", "0.5"}));
  EXPECT_EQ(two.part_paths, (Words{"o/train", "o/test"}));
  const auto three = parse_as<SplitImagesConfig>(parts({"--fractions", "0.8,0.1,0.1"}));
  EXPECT_EQ(three.part_paths, (Words{"o/train", "o/valid", "o/test"}));
  EXPECT_EQ(three.fractions, (std::vector<double>{0.8, 0.1, 0.1}));
  EXPECT_EQ(parse_as<SplitImagesConfig>(parts({"--fractions", "75%,25%"})).part_names.size(), 2U);
}

TEST(Split, RefusesFractionsThatCannotBe) {
  ErrorCode code = ErrorCode::kUserError;
  for (const char* text : {"0", "-0.5", "1", "1.5", "110%"}) {
    EXPECT_NE(fault(split_words({std::string("--fraction=") + text}), &code), "no fault") << text;
    EXPECT_EQ(code, ErrorCode::kNotInRangeValue) << text;
  }
  EXPECT_NE(fault(split_words({"--fraction=half"}), &code), "no fault");
  EXPECT_EQ(code, ErrorCode::kParameterParsing);
  EXPECT_NE(fault(parts({"--fractions=0.8,0.1"}), &code).find("add up to 1"), std::string::npos);
  EXPECT_EQ(code, ErrorCode::kNotInRangeValue);
  for (const char* text : {"0.5", "0.25,0.25,0.25,0.25", "0.9,", ",", "0.9;0.1"}) {
    EXPECT_NE(fault(parts({std::string("--fractions=") + text}), &code), "no fault") << text;
    EXPECT_EQ(code, ErrorCode::kParameterParsing) << text;
  }
}

TEST(Split, RefusesWhatDoesNotGoTogether) {
  EXPECT_NE(fault(parts({"--fraction=0.5", "--fractions=0.5,0.5"})).find("one of them"),
            std::string::npos);
  EXPECT_NE(fault(split_words({"--fractions=0.5,0.5"})).find("needs --output-path"),
            std::string::npos);
  EXPECT_EQ(faults(split_words({"--output-path=o"})).size(), 2U);
  EXPECT_EQ(fault({"split", "--src-path", "s"}), "no fault");  // into the folder split
  EXPECT_NE(fault({"split", "--src-path=s", "--tgt-train-path=a", "--tgt-test-path=a/b"})
                .find("is inside --tgt-train-path"),
            std::string::npos);
  EXPECT_NE(fault({"split", "--src-path=s", "--tgt-train-path=s/a", "--tgt-test-path=b"})
                .find("is inside --data-path"),
            std::string::npos);
  EXPECT_NE(fault({"split", "--src-path=s", "--output-path=s"}).find("the same folder"),
            std::string::npos);
  EXPECT_NE(fault(split_words({"--group-by", "("})).find("regular expression"), std::string::npos);
}

}  // namespace
}  // namespace kiln
