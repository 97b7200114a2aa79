#include "tools/inspect/inspect_images.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

constexpr std::uint64_t kGigabyte = 1'000'000'000;

TEST(InputMode, FollowsNumberAndSizeOfFiles) {
  EXPECT_EQ(fitting_mode({.count = 5'000, .bytes = kGigabyte}).name, "File");
  EXPECT_EQ(fitting_mode({.count = 100, .bytes = 10 * kGigabyte, .in_place = true}).name, "File");
  EXPECT_EQ(fitting_mode({.count = 600, .bytes = 150 * kGigabyte, .in_place = true}).name,
            "FastFile");
  EXPECT_EQ(fitting_mode({.count = 600, .bytes = 150 * kGigabyte, .compressed = true}).name,
            "Pipe");
  EXPECT_EQ(fitting_mode({.count = 1'300'000, .bytes = 150 * kGigabyte}).name, "File");
  EXPECT_EQ(fitting_mode({.count = 0, .bytes = 0}).name, "File");
}

TEST(InputMode, ManySmallFilesAreToBePacked) {
  EXPECT_NE(fitting_mode({.count = 1'300'000, .bytes = 150 * kGigabyte}).reason.find("kiln pack"),
            std::string::npos);
  EXPECT_NE(fitting_mode({.count = 60'000, .bytes = 2 * kGigabyte}).reason.find("kiln pack"),
            std::string::npos);
  EXPECT_EQ(fitting_mode({.count = 600, .bytes = 2 * kGigabyte}).reason.find("kiln pack"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
