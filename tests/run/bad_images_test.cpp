#include "run/run_faults.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

class BadImages : public testing::Test {
 protected:
  BadImages() {
    for (int i = 0; i < 40; ++i)
      set_.samples.push_back(
          {.file_name = std::to_string(i) + ".png", .label = 0, .id = i, .size = {}});
    config_.max_bad_images = {.value = 3, .is_share = false};
  }

  BadImageLedger ledger() { return {"training", set_, /*is_shard=*/false, config_, faults_}; }

  // Notes them silently.
  void note(const std::vector<BadImage>& images) {
    testing::internal::CaptureStdout();
    try {
      ledger().note(images, /*leads=*/true, log_);
    } catch (...) {
      said_ += testing::internal::GetCapturedStdout();
      throw;
    }
    said_ += testing::internal::GetCapturedStdout();
  }

  Dataset set_;
  DataConfig config_;
  ImageFaults faults_;
  Log log_;
  std::string said_;
};

TEST_F(BadImages, AreNotedOnce) {
  note({{.sample = 4, .fault = "cut short"}, {.sample = 4, .fault = "cut short"}});
  note({{.sample = 4, .fault = "cut short"}});
  EXPECT_EQ(faults_.num_bad, 1);
  ASSERT_EQ(faults_.records.size(), 1u);
  EXPECT_EQ(faults_.records[0].file, "4.png");
  EXPECT_EQ(faults_.records[0].data_set, "training");
}

TEST_F(BadImages, DamagedOnesAreUsedAndCountForNothing) {
  for (std::uint32_t i = 0; i < 10; ++i)
    note({{.sample = i, .fault = "ends early", .damaged = true}});
  EXPECT_EQ(faults_.num_bad, 0);
  EXPECT_EQ(faults_.records.size(), 10u);
}

TEST_F(BadImages, BeyondTheAllowanceAreRefusedByName) {
  note({{.sample = 1, .fault = "x"}, {.sample = 2, .fault = "x"}, {.sample = 3, .fault = "x"}});
  try {
    note({{.sample = 9, .fault = "no header"}});
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_NE(error.message().find("'9.png' (no header)"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("--max-bad-images"), std::string::npos);
  }
}

TEST_F(BadImages, TheFirstIsRefusedWhereItMustFail) {
  config_.on_bad_image = OnBadImage::kFail;
  EXPECT_THROW(note({{.sample = 1, .fault = "x"}}), Error);
}

TEST_F(BadImages, AFloodIsNamedInPartAndRememberedWhole) {
  config_.max_bad_images = {.value = 40, .is_share = false};
  std::vector<BadImage> flood;
  for (std::uint32_t i = 0; i < 30; ++i) flood.push_back({.sample = i, .fault = "x"});
  note(flood);
  EXPECT_EQ(faults_.records.size(), 30u);
  EXPECT_NE(said_.find("'9.png'"), std::string::npos);
  EXPECT_EQ(said_.find("'10.png'"), std::string::npos);
}

}  // namespace
}  // namespace kiln
