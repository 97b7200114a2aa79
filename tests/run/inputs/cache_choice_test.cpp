#include "run/inputs/training_loaders.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

Sources sources_of(int num_train, int num_valid) {
  Sources sources;
  const auto fill = [](Dataset& set, int count) {
    for (int i = 0; i < count; ++i)
      set.samples.push_back(
          {.file_name = std::to_string(i) + ".png", .label = 0, .id = i, .size = {}});
  };
  fill(sources.train, num_train);
  fill(sources.valid, num_valid);
  return sources;
}

CacheChoice choose(CachePolicy policy, std::size_t bytes, Augment augment = Augment::kNone) {
  DataConfig config;
  config.train_path = ".";
  config.cache = policy;
  config.augment = augment;
  PixelPlan pixels;
  pixels.train.output = pixels.valid.output = {32, 32};
  pixels.train.augment = augment;
  return choose_cache(config, sources_of(300, 100), pixels, bytes);
}

TEST(ChooseCache, KeepsDecodedImagesThatAllFit) {
  const CacheChoice choice = choose(CachePolicy::kAuto, 100 << 20);
  EXPECT_EQ(choice.train, CacheKind::kDecoded);
  EXPECT_EQ(choice.valid, CacheKind::kDecoded);
  EXPECT_LE(choice.train_limit_bytes + choice.valid_limit_bytes, 100u << 20);
}

TEST(ChooseCache, KeepsValidationImagesAloneWhereEveryEpochTakesOtherParts) {
  const CacheChoice choice = choose(CachePolicy::kAuto, 100 << 20, Augment::kStandard);
  EXPECT_EQ(choice.train, CacheKind::kNone);
  EXPECT_EQ(choice.valid, CacheKind::kDecoded);
}

TEST(ChooseCache, KeepsNothingThatDoesNotFitOrIsNotWanted) {
  EXPECT_EQ(choose(CachePolicy::kAuto, 1 << 16).train, CacheKind::kNone);
  EXPECT_EQ(choose(CachePolicy::kNone, 100 << 20).valid, CacheKind::kNone);
}

TEST(ChooseCache, RefusesALimitThatHoldsNotEvenOneImage) {
  try {
    choose(CachePolicy::kDecoded, 10);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUserError);
    EXPECT_NE(error.message().find("use --cache none"), std::string::npos);
  }
}

TEST(LoaderThreadCount, AGivenNumberStays) {
  EXPECT_EQ(choose_loader_threads(/*given=*/5, 8, false).first, 5);
  EXPECT_EQ(choose_loader_threads(5, 8, false).most, 0);
  EXPECT_EQ(choose_loader_threads(0, 8, false).first, 4);
  EXPECT_EQ(choose_loader_threads(0, 8, false).most, 8);
  EXPECT_EQ(choose_loader_threads(0, 1, false).first, 1);
  EXPECT_EQ(choose_loader_threads(0, 8, true).first, 6);
  EXPECT_EQ(choose_loader_threads(0, 8, true).most, 0);
}

}  // namespace
}  // namespace kiln
