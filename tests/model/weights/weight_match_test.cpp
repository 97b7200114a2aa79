#include "model/weights/weight_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kiln {
namespace {

using Rows = std::vector<std::int64_t>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MatchClasses, TakesTheWholeLayerForTheSameClasses) {
  const ClassRows match = match_classes({"a", "b"}, {"a", "b"}, 2);
  EXPECT_EQ(match.rows, (Rows{0, 1}));
  EXPECT_TRUE(contains(match.text, "the classes are the same"));
}

TEST(MatchClasses, FindsRowsByName) {
  EXPECT_EQ(match_classes({"b", "a"}, {"a", "b"}, 2).rows, (Rows{1, 0}));
  EXPECT_EQ(match_classes({"c"}, {"a", "b", "c"}, 3).rows, (Rows{2}));
  const ClassRows more = match_classes({"a", "new", "b"}, {"b", "a"}, 2);
  EXPECT_EQ(more.rows, (Rows{1, kFreshRow, 0}));
  EXPECT_TRUE(contains(more.text, "2 of 3 classes; fresh: 'new'")) << more.text;
  const ClassRows none = match_classes({"x", "y"}, {"a", "b"}, 2);
  EXPECT_FALSE(none.any());
  EXPECT_TRUE(contains(none.text, "know none of the classes"));
}

TEST(MatchClasses, AreFreshWhereNothingNamesTheRows) {
  const ClassRows same = match_classes({"x", "y"}, {}, 2);
  EXPECT_EQ(same.rows, (Rows{kFreshRow, kFreshRow}));
  EXPECT_TRUE(contains(same.text, "NAME.classes.txt")) << same.text;
  const ClassRows other = match_classes({"x", "y", "z"}, {}, 1000);
  EXPECT_FALSE(other.any());
  EXPECT_TRUE(contains(other.text, "the weights have 1,000 outputs and the data 3 classes"));
  EXPECT_FALSE(match_classes({"x", "y"}, {"x", "y"}, 1000).any()) << "names of other rows";
  EXPECT_FALSE(match_classes(std::vector<std::string>(1000, "n01440764"), {}, 1000).any());
}

}  // namespace
}  // namespace kiln
