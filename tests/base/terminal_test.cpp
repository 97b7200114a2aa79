#include "base/log.h"
#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace kiln {
namespace {

TEST(Terminal, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to("abc", 2), "ab");
  EXPECT_EQ(cut_to("abc", 9), "abc");
  EXPECT_EQ(cut_to("\u2588\u2588x", 2), "\u2588\u2588");
  EXPECT_EQ(cut_to("abc", 0), "");
}

TEST(Terminal, TheFirstLocaleVariableThatIsSetDecides) {
  ::setenv("LC_ALL", "", 1);
  ::setenv("LC_CTYPE", "C", 1);
  ::setenv("LANG", "de_DE.UTF-8", 1);
  EXPECT_FALSE(locale_is_utf8());
  ::unsetenv("LC_CTYPE");
  EXPECT_TRUE(locale_is_utf8());
}

}  // namespace
}  // namespace kiln
