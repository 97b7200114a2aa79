#include "base/training_record.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(IsBetter, ComparesTop1ThenLossThenPrefersTheEarlier) {
  EXPECT_TRUE(is_better({5.0, 8, 10, 10}, {1.0, 7, 10, 10}));
  EXPECT_TRUE(is_better({1.0, 8, 10, 10}, {2.0, 8, 10, 10}));
  EXPECT_FALSE(is_better({2.0, 8, 10, 10}, {2.0, 8, 10, 10}));
}

}  // namespace
}  // namespace kiln
