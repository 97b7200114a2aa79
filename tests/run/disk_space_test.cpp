#include "run/disk_space.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace kiln {
namespace {

constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 60;

TEST(DiskSpace, IsCountedByDisk) {
  const std::filesystem::path here = std::filesystem::temp_directory_path();
  EXPECT_TRUE(shortages({{here, 1, "the model"}, {here, 1, "2 checkpoints"}}).empty());
  const auto found = shortages({{here, 1, "the model"}, {here, kTooMuch, "2 checkpoints"}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find(" for the model in '" + here.string() + "' and "), std::string::npos);
  EXPECT_NE(found[0].find(" for 2 checkpoints in '" + here.string() + "'."), std::string::npos);
}

TEST(DiskSpace, IsNotMissedWhereItIsUnknown) {
  EXPECT_TRUE(shortages({{"/proc", kTooMuch, "the model"}}).empty());
  EXPECT_TRUE(shortages({{"/nowhere", kTooMuch, "the model"}}).empty());
}

}  // namespace
}  // namespace kiln
