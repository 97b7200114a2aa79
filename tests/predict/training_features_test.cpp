#include "predict/features/training_features.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "predict/features/known_features.h"

namespace kiln {
namespace {

class TrainingFeaturesFile : public testing::Test {
 protected:
  static constexpr std::int64_t kWidth = 300, kImages = 20;

  TrainingFeaturesFile() : path_(folder_.path() / "t.safetensors") {
    at::manual_seed(4);
    rows_ = at::randn({kImages, kWidth});
    for (int i = 0; i < kImages; ++i) names_ += "a/" + std::to_string(i) + ".png" + '\0';
    write(training_features_file(neighbors_of(rows_), names_, weights_));
  }

  void write(const std::string& bytes) const { write_file_durably(path_, bytes); }
  TrainingFeatures read(std::int64_t width = kWidth) const {
    return {path_, hash_of(weights_), width};
  }

  const TemporaryFolder folder_{"kiln-test"};
  const std::filesystem::path path_;
  StateDict weights_ = {{"weight", DType::kFloat32, {100}, std::string(400, 'w')}};
  at::Tensor rows_;
  std::string names_;
};

TEST_F(TrainingFeaturesFile, NamesTheNearest) {
  const auto nearest = read().nearest(rows_, 3);
  ASSERT_EQ(nearest.size(), static_cast<std::size_t>(kImages));
  for (int i = 0; i < kImages; ++i) {
    ASSERT_EQ(nearest[i].size(), 3U);
    EXPECT_EQ(nearest[i][0], "a/" + std::to_string(i) + ".png");
  }
  EXPECT_EQ(read().nearest(rows_, 100)[0].size(), static_cast<std::size_t>(kImages));
}

TEST_F(TrainingFeaturesFile, OfOtherWeightsOrAnotherWidthIsRefused) {
  EXPECT_THROW(read(kWidth + 1), Error);
  weights_.front().bytes[7] = 'v';
  EXPECT_THROW(read(), Error);
}

TEST_F(TrainingFeaturesFile, EveryTruncatedFileAndMissingNamesAreRefused) {
  const std::string bytes = read_file(path_);
  for (std::size_t size = 0; size < bytes.size(); size += 997) {
    write(bytes.substr(0, size));
    EXPECT_THROW(read(), Error) << size;
  }
  write(training_features_file(neighbors_of(rows_), names_.substr(0, names_.size() / 2), weights_));
  EXPECT_THROW(read(), Error);
  std::filesystem::remove(path_);
  EXPECT_THROW(read(), Error);
}

}  // namespace
}  // namespace kiln
