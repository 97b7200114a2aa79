#include "fetch/cache_entry.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  ~Cache() override { fs::remove_all(folder_); }

  const fs::path folder_ = testing::TempDir() + "cache_entry_test";
  const std::string url_ = "https://host/a/resnet50-0676ba61.pth?x";
  Log log_;
};

TEST_F(Cache, NamesOfTwoUrlsDiffer) {
  const CacheEntry one(folder_, url_), other(folder_, url_ + "y");
  EXPECT_NE(one.file(), other.file());
  EXPECT_TRUE(one.file().string().ends_with("-resnet50-0676ba61.pth"));
  EXPECT_EQ(one.part(), one.file().string() + ".part");
}

TEST_F(Cache, RecordsAreReadBack) {
  CacheEntry entry(folder_, url_);
  EXPECT_EQ(entry.read().sha256 + entry.read().validator, "");
  entry.lock(log_);
  entry.write({.validator = "\"a tag\""});
  EXPECT_EQ(entry.read().validator, "\"a tag\"");
  EXPECT_EQ(entry.read().sha256, "");
  const std::string hash(64, 'a');
  entry.write({.sha256 = hash});
  EXPECT_EQ(entry.read().validator, "");
  EXPECT_EQ(entry.read().sha256, hash);
}

TEST_F(Cache, DamagedRecordsCountAsNone) {
  CacheEntry entry(folder_, url_);
  entry.lock(log_);
  for (const std::string& text :
       {std::string("kiln-fetch-1"), std::string("kiln-fetch-1\nsha256 12\n"),
        std::string("kiln-fetch-1\nvalidator x"),
        "kiln-fetch-2\nsha256 " + std::string(64, 'a') + "\n",
        "kiln-fetch-1\nsha256 " + std::string(64, 'X') + "\n", std::string(10'000, 'x')}) {
    std::ofstream(entry.file().string() + ".fetch") << text;
    EXPECT_EQ(entry.read().sha256 + entry.read().validator, "") << text;
  }
}

TEST_F(Cache, TheFolderFollowsTheVariable) {
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  EXPECT_EQ(weights_cache_folder(), folder_ / "kiln/weights");
  ::setenv("XDG_CACHE_HOME", kept.c_str(), 1);  // an empty one counts as none
}

TEST_F(Cache, AFileInPlaceOfTheFolder) {
  std::ofstream(folder_.string()) << "x";
  CacheEntry entry(folder_, url_);
  try {
    entry.lock(log_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedToWriteOutputs);
    EXPECT_NE(error.message().find("XDG_CACHE_HOME"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln
