#include "base/text.h"

#include <gtest/gtest.h>

#include "base/names.h"
#include "base/url.h"

namespace kiln {
namespace {

TEST(Formatted, FormatsLikePrintf) {
  EXPECT_EQ(formatted("epoch %d of %zu: %.2f %%", 3, std::size_t{5}, 0.125),
            "epoch 3 of 5: 0.12 %");
  EXPECT_EQ(formatted("%s", ""), "");
}

TEST(Printable, KeepsPrintableText) {
  EXPECT_EQ(printable("plain\twords, ein schönes Bild, 写真, 😀"),
            "plain\twords, ein schönes Bild, 写真, 😀");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesControlCharactersAndBrokenUtf8) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\x7f"), "a\\x1b[2Jb\\x0ac\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\xa0"),
            "\\xc2\\x9b31m\xc2\xa0");  // CSI in C1
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                    // truncated
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong slash
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, EscapesWhatEndsOrReordersALineOfUnicode) {
  for (const char* mark : {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
                           "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    EXPECT_EQ(printable("a" + std::string(mark)).substr(0, 3), "a\\x");
    EXPECT_TRUE(is_clean(mark)) << "no fault of a name";
  }
  EXPECT_EQ(printable("\u200b\u2027\u206a"), "\u200b\u2027\u206a");
  for (const char* text : {"a\nb", "\x7f", "\xc2\x9b", "\xff"})
    EXPECT_FALSE(is_clean(text)) << text;
  EXPECT_TRUE(is_clean("a\tb\u00e9"));
}

TEST(ForPeople, HasNoSecretsNoControlsAndNoEndlessWords) {
  EXPECT_EQ(for_people("see 'https://u:w@host/a?b'.\x1b"), "see 'https://host/a?…'.\\x1b");
  const std::string word(1000, 'x');
  EXPECT_EQ(for_people("a " + word + " b"), "a " + word + " b");
  EXPECT_EQ(for_people(word + "yz b " + word + word).substr(0, 1007), word + "… b x");
  EXPECT_LT(for_people(word + " " + std::string(100'000, 'x')).size(), 2100U);
  EXPECT_EQ(for_people(word + "… b"), word + "… b") << "again";
  EXPECT_EQ(for_people("  a  "), "  a  ");
  EXPECT_EQ(for_people(""), "");
}

TEST(Excerpt, CutsNoSecretInTwo) {
  EXPECT_EQ(excerpt("https://" + std::string(200, 'w') + "@host/a"), "https://host/a");
  EXPECT_EQ(excerpt(std::string(101, 'x')), std::string(100, 'x') + "…");
}

TEST(QuotedNames, AreAsManyAsAskedAndTheCountOfTheRest) {
  EXPECT_EQ(quoted_names({"a"}, 2), "'a'");
  EXPECT_EQ(quoted_names({"a", "b"}, 2), "'a', 'b'");
  EXPECT_EQ(quoted_names({"a", "b", "c", "d", "e"}, 2), "'a', 'b' and 3 more");
}

TEST(IsUtf8, RefusesBrokenSequences) {
  for (const char* text : {"", "plain", "ein schönes Bild, 写真, 😀", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_FALSE(is_utf8(text)) << printable(text);
}

TEST(CutToBytes, SplitsNoCharacter) {
  EXPECT_EQ(cut_to_bytes("plain", 3), "pla");
  EXPECT_EQ(cut_to_bytes("plain", 5), "plain");
  EXPECT_EQ(cut_to_bytes("plain", 6), "plain");
  EXPECT_EQ(cut_to_bytes("a写真", 4), "a写");
  EXPECT_EQ(cut_to_bytes("a写真", 6), "a写");
  EXPECT_EQ(cut_to_bytes("写", 2), "");
}

TEST(Formatted, HasNoLengthLimit) {
  const std::string longer(5000, 'x');
  EXPECT_EQ(formatted("<%s>", longer.c_str()), "<" + longer + ">");
}

TEST(Aligned, CountsCharacters) {
  EXPECT_EQ(aligned({{"\u043a\u043e\u0442", "1"}, {"horse", "22"}}),
            "\u043a\u043e\u0442    1\nhorse  22\n");
}

}  // namespace
}  // namespace kiln
