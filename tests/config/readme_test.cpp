// The README's option table is the one that the program parses with. KILN_WRITE_README=1 renews it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "config/command_line.h"

namespace kiln {
namespace {

constexpr const char* kBegin = "<!-- options:train -->\n";
constexpr const char* kEnd = "<!-- /options -->";

TEST(Readme, ShowsTheOptionsOfTrain) {
  const std::string path = std::string(KILN_SOURCE_DIR) + "/README.md";
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  std::string readme = content.str();
  const std::size_t begin = readme.find(kBegin);
  const std::size_t end = readme.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + std::string(kBegin).size();
  const std::string expected = options_markdown("train") + "\n";
  if (std::getenv("KILN_WRITE_README") != nullptr) {
    readme.replace(from, end - from, expected);
    std::ofstream(path) << readme;
    return;
  }
  EXPECT_EQ(readme.substr(from, end - from), expected);
}

}  // namespace
}  // namespace kiln
