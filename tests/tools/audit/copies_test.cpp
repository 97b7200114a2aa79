#include "tools/audit/image_checks.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

TEST(Copies, OfOtherClassesComeFirst) {
  const std::vector<std::int32_t> labels = {0, 0, 0, 1, 1, 1};
  const Pairs exact = {{0, 2}, {0, 5}}, near = {{1, 3}, {3, 4}};
  EXPECT_EQ(
      listed_copies(exact, near, labels),
      (std::vector<ImageCopy>{
          {0, 5, true, false}, {1, 3, false, false}, {0, 2, true, true}, {3, 4, false, true}}));
  EXPECT_TRUE(listed_copies({}, {}, labels).empty());
}

}  // namespace
}  // namespace kiln
