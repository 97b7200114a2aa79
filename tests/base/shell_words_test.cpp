#include "base/text.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(ShellWords, QuotesSpecialCharacters) {
  EXPECT_EQ(shell_words({"train", "--epochs=3", "--log-path=my logs", "it's", "", "$HOME"}),
            R"(train --epochs=3 '--log-path=my logs' 'it'\''s' '' '$HOME')");
}

}  // namespace
}  // namespace kiln
