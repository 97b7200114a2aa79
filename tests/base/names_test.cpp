// Names that look alike are told apart.
#include "base/names.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Names, ThoseThatLookAlikeAreShownWithEscapes) {
  // Letters with one mark and with two, kana, Hangul, Cyrillic; what is not seen.
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"caf\u00e9", "cafe\u0301"}, {"x\u1ebf", "xe\u0302\u0301"},
      {"\u304c", "\u304b\u3099"},  {"\ud55c", "\u1112\u1161\u11ab"},
      {"\u0439", "\u0438\u0306"},  {"dog house", "dog\u00a0house"},
      {"dog", "dog\u200b"}};
  for (const auto& [composed, other] : pairs) {
    EXPECT_NE(quoted_among(composed, {"dig", other}).find("\\u"), std::string::npos) << composed;
    EXPECT_EQ(quoted_among(composed, {"dig", composed}), "'" + composed + "'");
    EXPECT_NE(note_of_twins({other, "dig", composed}).find("\\u"), std::string::npos) << composed;
    EXPECT_NE(note_of_twins({composed, "dig", other}).find("\\u"), std::string::npos) << composed;
  }
  EXPECT_EQ(quoted_among("cafe\u0301", {"caf\u00e9"}),
            "'cafe\\u0301' (which looks like 'caf\\u00e9')");
  EXPECT_EQ(quoted_among("cafe", {"caf\u00e9"}), "'cafe'");
  EXPECT_EQ(quoted_among({"a", "b", "c"}, {}, 2), "'a', 'b' and 1 more");
  EXPECT_EQ(as_utf8("caf\xe9"), "caf\\xe9");
}

// Capitals, other letters and other accents are seen.
TEST(Names, ThoseThatLookDifferentAreShownAsTheyAre) {
  EXPECT_EQ(note_of_twins({"caf\u00e9", "caf\u00e8", "cafe", "Cafe", "\u732b", "\u72ac"}), "");
  EXPECT_EQ(note_of_twins({"doghouse", "dog house", "dog-house", "cat", "1", "01"}), "");
}

}  // namespace
}  // namespace kiln
