#include "base/path_pattern.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kiln {
namespace {

TEST(PathPattern, GivesTheFirstCaptureGroupElseTheMatch) {
  EXPECT_EQ(PathPattern("(\\d+)_\\d").group_of("cat/patient12_3.jpg"), "12");
  EXPECT_EQ(PathPattern("p\\d+").group_of("cat/p12_3.jpg"), "p12");
  EXPECT_EQ(PathPattern("(?:cat|dog)/(\\w+?)_").group_of("dog/a_b_c.jpg"), "a");
  EXPECT_EQ(PathPattern("(x)|cat").group_of("cat/1.jpg"), "");
  EXPECT_EQ(PathPattern("bird").group_of("cat/1.jpg"), "");
}

TEST(PathPattern, RefusesWhatIsNoPattern) {
  for (const std::string& pattern :
       {std::string("("), std::string("[a"), std::string("a{2,1}"), std::string("*"),
        std::string("(a)\\1"), std::string("(a?){1001}"), std::string("((a?){40}){40}"),
        std::string(kMaxPatternBytes + 1, 'a')})
    EXPECT_THROW(PathPattern{pattern}, std::invalid_argument) << pattern;
}

// A matcher that backtracks or recurses once a byte does not come back from these.
TEST(PathPattern, TakesLongPaths) {
  const std::string path(4096, 'a');
  EXPECT_EQ(PathPattern("(a+)+b").group_of(path.substr(0, 200)), "");
  EXPECT_EQ(PathPattern("[^/]*").group_of(path).size(), 4096U);
  EXPECT_EQ(PathPattern("a*$").group_of(std::string(1 << 20, 'a')).size(), 4096U);
  EXPECT_EQ(PathPattern(std::string(200, '(') + "a" + std::string(200, ')')).group_of(path), "a");
}

}  // namespace
}  // namespace kiln
