// Names that look alike are told apart.
#include "base/unicode_form.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(UnicodeForm, NamesThatLookAlikeAreToldApart) {
  // A letter with one mark and with two, kana, Hangul, Cyrillic.
  const std::vector<std::pair<std::string, std::string>> pairs = {{"caf\u00e9", "cafe\u0301"},
                                                                  {"\u1ebf", "e\u0302\u0301"},
                                                                  {"\u304c", "\u304b\u3099"},
                                                                  {"\ud55c", "\u1112\u1161\u11ab"},
                                                                  {"\u0439", "\u0438\u0306"}};
  for (const auto& [composed, other] : pairs) {
    EXPECT_NE(quoted_among(composed, {"dog", other}).find("another Unicode form"),
              std::string::npos)
        << composed;
    EXPECT_EQ(quoted_among(composed, {"dog", composed}), "'" + composed + "'");
    EXPECT_NE(note_of_twins({other, "dog", composed}), "");
  }
  EXPECT_EQ(quoted_among("cafe\u0301", {"caf\u00e9"}),
            "'cafe\\u0301' (the same name as 'caf\\u00e9' in another Unicode form: rename one)");
  EXPECT_EQ(quoted_among("cafe", {"caf\u00e9"}), "'cafe'");
  EXPECT_EQ(quoted_among({"a", "b", "c"}, {}, 2), "'a', 'b' and 1 more");
  EXPECT_EQ(note_of_twins({"caf\u00e9", "caf\u00e8", "cafe"}), "");
  EXPECT_EQ(as_utf8("caf\xe9"), "caf\\xe9");
}

TEST(UnicodeForm, TwinsMayDifferInCapitalsBlanksAndWhatIsNotSeen) {
  for (const std::string& twin : std::vector<std::string>{
           "Dog house", "dog  house", "dog\u00a0house", " dog house", "dog hou\u200bse",
           "dog house\ufeff", "dog house ", "dog\u3000house", "dog house\u202e", "dog \u2066house",
           "dog\u2028 house"}) {
    const std::string note = note_of_twins({"cat", "dog house", twin});
    EXPECT_NE(note.find("'dog house'"), std::string::npos) << twin;
    EXPECT_EQ(note.find("Unicode form"), std::string::npos) << note;
  }
  EXPECT_NE(note_of_twins({"\u00c9t\u00e9", "e\u0301te\u0301"}), "");
  EXPECT_NE(note_of_twins({"\u041c\u0418\u0420", "\u043c\u0438\u0440"}), "");
  EXPECT_EQ(note_of_twins({"doghouse", "dog house", "dog-house", "cat", "1", "01"}), "");
  const std::string several = note_of_twins({"a", "A", "b", "B", "c", "C"});
  EXPECT_NE(several.find("'a' (the same name as 'A'"), std::string::npos) << several;
  EXPECT_NE(several.find("2 more"), std::string::npos) << several;
  EXPECT_NE(note_of_twins({"a\u00a0b", "a b"}).find("a\\u00a0b"), std::string::npos);
}

}  // namespace
}  // namespace kiln
