#include "run/bad_images.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/scratch_folder.h"

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

  BadImageLedger ledger() {
    return {"training", set_, /*is_shard=*/false, config_.on_bad_image, config_.max_bad_images,
            faults_};
  }

  // Records them without output.
  void record(const std::vector<BadImage>& images) {
    testing::internal::CaptureStdout();
    try {
      ledger().record(images, /*leads=*/true, log_);
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
  record({{.sample = 4, .fault = "cut short"}, {.sample = 4, .fault = "cut short"}});
  record({{.sample = 4, .fault = "cut short"}});
  EXPECT_EQ(faults_.num_bad, 1);
  ASSERT_EQ(faults_.records.size(), 1u);
  EXPECT_EQ(faults_.records[0].file, "4.png");
  EXPECT_EQ(faults_.records[0].data_set, "training");
}

TEST_F(BadImages, DamagedOnesAreUsedAndCountForNothing) {
  for (std::uint32_t i = 0; i < 10; ++i)
    record({{.sample = i, .fault = "ends early", .damaged = true}});
  EXPECT_EQ(faults_.num_bad, 0);
  EXPECT_EQ(faults_.records.size(), 10u);
}

TEST_F(BadImages, BeyondTheAllowanceAreRefusedByName) {
  record({{.sample = 1, .fault = "x"}, {.sample = 2, .fault = "x"}, {.sample = 3, .fault = "x"}});
  try {
    record({{.sample = 9, .fault = "no header"}});
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_NE(error.message().find("'9.png' (no header)"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("--max-bad-images"), std::string::npos);
  }
}

std::string ppm(int side) {
  const std::string size = std::to_string(side);
  return "P6 " + size + " " + size + " 255\n" +
         std::string(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3, 'x');
}

TEST_F(BadImages, BeyondTheAllowanceAllAreNamedAlsoThoseNotMet) {
  const ScratchFolder folder;
  set_.root = folder.path();
  for (int i = 0; i < 40; ++i)
    folder.put(std::to_string(i) + ".png", i == 7 || i == 31 ? "no image" : ppm(8));
  config_.max_bad_images = {.value = 0, .is_share = false};
  try {
    record({{.sample = 2, .fault = "met"}});
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    for (const char* part :
         {"'2.png' (met)", "'7.png' (not an image", "'31.png'", "That is 3 of 40"})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("'3.png'"), std::string::npos) << error.message();
  }
}

TEST_F(BadImages, BeyondTheAllowanceAtMostTwentyAreNamed) {
  set_.root = "/nowhere/at/all";
  try {
    record({{.sample = 1, .fault = "x"},
            {.sample = 2, .fault = "x"},
            {.sample = 3, .fault = "x"},
            {.sample = 4, .fault = "x"}});
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("; and 20 more. That is 40 of 40 images"), std::string::npos)
        << error.message();
  }
}

TEST_F(BadImages, TheFirstIsRefusedWhereItMustFail) {
  config_.on_bad_image = OnBadImage::kFail;
  EXPECT_THROW(record({{.sample = 1, .fault = "x"}}), Error);
}

TEST_F(BadImages, AFloodIsNamedInPartAndRememberedWhole) {
  config_.max_bad_images = {.value = 40, .is_share = false};
  std::vector<BadImage> flood;
  for (std::uint32_t i = 0; i < 30; ++i) flood.push_back({.sample = i, .fault = "x"});
  record(flood);
  EXPECT_EQ(faults_.records.size(), 30u);
  EXPECT_NE(said_.find("'9.png'"), std::string::npos);
  EXPECT_EQ(said_.find("'10.png'"), std::string::npos);
}

}  // namespace
}  // namespace kiln
