#include "data/stream/kept_stream.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"
#include "data/make_image.h"
#include "data/records/image_record.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

std::string image(int i) {
  return test::encode_png(test::plain(8, 6, static_cast<std::uint8_t>(i), 7, 9));
}

std::string member(int i, const std::string& label) {
  const std::string key = std::to_string(i);
  return tar_member(key + ".png", image(i)) + tar_member(key + ".cls", label);
}

std::string tar_of(const std::vector<std::string>& labels) {
  std::string tar;
  for (std::size_t i = 0; i < labels.size(); ++i) tar += member(static_cast<int>(i), labels[i]);
  return tar + tar_end();
}

class KeptStreamTest : public testing::Test {
 protected:
  void put(const std::string& bytes) const { folder_.put("validation_0", bytes); }

  KeptStreamPlan plan(const std::string& name = "validation_{epoch}") {
    return {.path = (folder_ / name).string(),
            .name = "Validation dataset",
            .most_in_memory = 1 << 20,
            .silence = {.deadline_seconds = 20},
            .warn = [this](const std::string& text) { warnings_ += text + "\n"; }};
  }

  static std::vector<int> labels(const Dataset& set) {
    std::vector<int> all;
    for (const Sample& sample : set.samples) all.push_back(sample.label);
    return all;
  }

  static void expect_images(const Dataset& set, std::size_t count) {
    ASSERT_EQ(set.samples.size(), count);
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) {
      read_image_bytes(set, i, bytes);
      EXPECT_EQ(bytes, image(static_cast<int>(i)));
      EXPECT_EQ(set.samples[i].size, (ImageSize{8, 6}));
    }
  }

  static std::string failure(const KeptStreamPlan& plan,
                             ErrorCode code = ErrorCode::kInvalidDataset) {
    try {
      keep_stream(plan);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  ScratchFolder folder_;
  std::string warnings_;
};

using Words = std::vector<std::string>;

TEST_F(KeptStreamTest, ImagesAreKeptInOrderAndLabelsAreClasses) {
  put(tar_of({"dog", "cat", "dog"}));
  const Dataset set = keep_stream(plan());
  expect_images(set, 3);
  EXPECT_EQ(set.classes, (Words{"cat", "dog"}));
  EXPECT_EQ(labels(set), (std::vector{1, 0, 1}));
  EXPECT_EQ(set.memory_bytes, set.archives[0].file.size());
  EXPECT_TRUE(set.notes.empty());
  const Dataset list = dataset_of(to_bytes(set, SetParts::kList), SetParts::kList);
  EXPECT_TRUE(list.is_kept_stream());
  EXPECT_EQ(list.classes, set.classes);
}

TEST_F(KeptStreamTest, WhatMemoryMayNotHoldIsInAFile) {
  put(tar_of({"a", "b", "a", "b"}));
  KeptStreamPlan wanted = plan();
  for (const std::uint64_t most : {image(0).size() * 2, std::size_t{0}}) {
    wanted.most_in_memory = most;
    const Dataset set = keep_stream(wanted);
    expect_images(set, 4);
    EXPECT_EQ(set.memory_bytes, 0U);
  }
}

TEST_F(KeptStreamTest, NumbersAreClassesUpToTheHighest) {
  put(tar_of({"0", "3", "1"}));
  EXPECT_EQ(keep_stream(plan()).classes, (Words{"0", "1", "2", "3"}));
  put(tar_of({"1", "3"}));
  const Dataset set = keep_stream(plan());
  EXPECT_EQ(set.classes, (Words{"1", "2", "3"}));
  EXPECT_EQ(labels(set), (std::vector{0, 2}));
  EXPECT_EQ(set.first_label, 1);
}

TEST_F(KeptStreamTest, AFileNamesClasses) {
  folder_.put("names.txt", "zebra\nant\n");
  KeptStreamPlan wanted = plan();
  wanted.records.classes_file = (folder_ / "names.txt").string();
  put(tar_of({"ant", "zebra"}));
  EXPECT_EQ(labels(keep_stream(wanted)), (std::vector{1, 0}));
  put(tar_of({"1", "2"}));
  const Dataset set = keep_stream(wanted);
  EXPECT_EQ(set.classes, (Words{"zebra", "ant"}));
  EXPECT_EQ(labels(set), (std::vector{0, 1}));
  put(tar_of({"0", "2"}));
  EXPECT_NE(failure(wanted).find("has label 2, but --classes"), std::string::npos);
  put(tar_of({"ant", "bee"}));
  EXPECT_NE(failure(wanted).find("1 class is not in --classes"), std::string::npos);
  EXPECT_NE(failure(wanted).find("'bee'"), std::string::npos);
}

TEST_F(KeptStreamTest, ABadRecordIsABadImageAndANote) {
  std::string records;
  for (int i = 0; i < 3; ++i)
    records += tfrecord(
        example_of({.name = {}, .bytes = image(i), .labels = {i}, .class_text = {}}, "PNG"));
  records[records.size() - 30] ^= 1;
  put(records);
  const Dataset set = keep_stream(plan());
  ASSERT_EQ(set.samples.size(), 3U);
  std::string bytes;
  read_image_bytes(set, 2, bytes);
  EXPECT_EQ(bytes, "-");
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("1 records cannot be read"), std::string::npos) << set.notes[0];
}

TEST_F(KeptStreamTest, FaultsNameTheStream) {
  const std::string tar = tar_of({"a", "b"});
  put(tar.substr(0, tar.size() / 2 - 100));
  EXPECT_NE(failure(plan()).find("validation_0': the stream ends after"), std::string::npos);
  put(tar_end());
  EXPECT_NE(failure(plan()).find("has no images"), std::string::npos);
  put(tar_member("1.png", image(1)) + tar_end());
  EXPECT_NE(failure(plan(), ErrorCode::kNotLabeledDataset).find("validation_0': the image '1.png'"),
            std::string::npos);
}

TEST_F(KeptStreamTest, ASilentPipeIsWarnedOfAndThenAnError) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  KeptStreamPlan wanted = plan("pipe");
  wanted.silence = {.warning_seconds = 0.1, .deadline_seconds = 0.35};
  EXPECT_NE(failure(wanted).find("without a writer"), std::string::npos);
  EXPECT_NE(warnings_.find("training is waiting for it"), std::string::npos);
  wanted = plan("pipe");
  std::thread writer([&] { folder_.put("pipe", tar_of({"a", "b"})); });
  expect_images(keep_stream(wanted), 2);
  writer.join();
}

}  // namespace
}  // namespace kiln
