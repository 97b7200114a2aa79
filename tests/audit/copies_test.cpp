#include "audit/copies.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

TEST(Copies, ExactAndNearOnceEachOtherClassesFirst) {
  const std::vector<std::uint64_t> hashes = {5, 6, 5, 7, 8, 5, 0, 0};
  const std::vector<std::int32_t> labels = {0, 0, 0, 1, 1, 1, 0, 0};
  const Pairs near = {{0, 2}, {1, 3}, {3, 4}};
  EXPECT_EQ(
      find_copies(hashes, near, labels),
      (std::vector<ImageCopy>{
          {0, 5, true, false}, {1, 3, false, false}, {0, 2, true, true}, {3, 4, false, true}}));
}

TEST(Copies, ImagesOfUnknownHashAreNoCopies) {
  const std::vector<std::uint64_t> hashes(3, 0);
  const std::vector<std::int32_t> labels(3, 0);
  EXPECT_TRUE(find_copies(hashes, {}, labels).empty());
}

}  // namespace
}  // namespace kiln
