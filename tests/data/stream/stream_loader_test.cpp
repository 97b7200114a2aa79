#include "data/stream/stream_loader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/tfrecord.h"
#include "data/archive/archive.h"
#include "data/archive/record_reader.h"
#include "data/loader/batch_loader.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

// Image i is of one color, whose red is i, and of class i % 3.
std::string image(int i) {
  return test::encode_png(test::plain(8, 8, static_cast<std::uint8_t>(i), 7, 9));
}

std::string member(int i) {
  const std::string key = "train/" + std::to_string(i);
  return tar_member(key + ".png", image(i)) + tar_member(key + ".cls", std::to_string(i % 3));
}

std::string tar_of(int count, int first = 0) {
  std::string tar;
  for (int i = first; i < first + count; ++i) tar += member(i);
  return tar + tar_end();
}

// A member without data: `edit` changes its header.
template <typename Edit>
std::string strange_member(const std::string& name, Edit&& edit) {
  std::string header = tar_member(name, "");
  edit(header);
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  return header;
}

std::string link(const std::string& name) {
  return strange_member(name, [](std::string& header) { header[156] = '2'; });
}

class StreamLoaderTest : public testing::Test {
 protected:
  static void put(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // One file for each epoch, read like a stream.
  void put_epochs(const std::vector<std::string>& tars) const {
    for (std::size_t i = 0; i < tars.size(); ++i)
      put(folder_.path() / ("train_" + std::to_string(i)), tars[i]);
  }

  StreamPlan plan(const std::string& name = "train_{epoch}") {
    StreamPlan plan{.path = (folder_.path() / name).string(),
                    .name = "Training dataset",
                    .classes = {"a", "b", "c"},
                    .steps_per_epoch = 5,
                    .batch_size = 4,
                    .pixels = {},
                    .scaling = {},
                    .seed = 3,
                    .silence = {.deadline_seconds = 20},
                    .warn = [this](const std::string& text) { warnings_ += text + "\n"; }};
    plan.pixels.output = {8, 8};
    return plan;
  }

  // The reds of an epoch's images, in order.
  static std::vector<int> reds(StreamLoader& stream, int epoch) {
    std::vector<int> all;
    const std::unique_ptr<Batches> batches = stream.epoch(epoch);
    while (const HostBatch* batch = batches->next()) {
      for (int i = 0; i < batch->count; ++i) {
        all.push_back(batch->pixels[static_cast<std::ptrdiff_t>(i) * 8 * 8 * 3]);
        EXPECT_EQ(batch->labels[static_cast<std::size_t>(i)], all.back() % 3);
      }
    }
    return all;
  }

  // What the first epoch throws.
  std::string failure(const StreamPlan& plan, ErrorCode code = ErrorCode::kInvalidDataset) {
    StreamLoader stream(plan, pool_, 1, 0);
    try {
      reds(stream, 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  static std::vector<int> numbers(int count, int first = 0) {
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), first);
    return all;
  }

  ScratchFolder folder_;
  LoaderThreads pool_{{.num_decoders = 3}};
  std::string warnings_;
};

TEST_F(StreamLoaderTest, WithoutShufflingImagesKeepTheirOrder) {
  put_epochs({tar_of(20), tar_of(20, 40)});
  StreamLoader stream(plan(), pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
  EXPECT_EQ(reds(stream, 2), numbers(20, 40));
  EXPECT_EQ(warnings_, "");
}

TEST_F(StreamLoaderTest, PixelsAreThoseOfABatchLoader) {
  put_epochs({tar_of(20)});
  Dataset set;
  set.root = folder_.path();
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i) + ".png";
    put(folder_.path() / name, image(i));
    set.samples.push_back({.file_name = name, .label = i % 3, .size = {}});
  }
  StreamPlan wanted = plan();
  wanted.scaling = Normalization{};
  BatchPlan same{.order = {}, .batch_size = 4, .pixels = wanted.pixels, .scaling = wanted.scaling};
  same.order.resize(20);
  std::iota(same.order.begin(), same.order.end(), 0U);
  const auto files = load_batches(set, pool_, same);
  StreamLoader stream(wanted, pool_, 1, 0);
  const std::unique_ptr<Batches> batches = stream.epoch(1);
  for (int step = 0; step < 5; ++step) {
    const HostBatch *expected = files->next(), *batch = batches->next();
    ASSERT_NE(batch, nullptr);
    EXPECT_TRUE(std::equal(batch->floats(), batch->floats() + 4 * 8 * 8 * 3, expected->floats()));
    EXPECT_EQ(batch->labels, expected->labels);
  }
}

TEST_F(StreamLoaderTest, ShufflingIsAFunctionOfSeedAndEpoch) {
  const std::string tar = tar_of(20);
  put_epochs({tar, tar});
  StreamPlan wanted = plan();
  wanted.shuffle_buffer = 6;
  std::vector<std::vector<int>> runs;
  for (const std::uint64_t seed : {3, 3, 4}) {
    wanted.seed = seed;
    StreamLoader stream(wanted, pool_, 1, 0);
    for (const int epoch : {1, 2}) {
      runs.push_back(reds(stream, epoch));
      std::vector<int> sorted = runs.back();
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, numbers(20));
    }
  }
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_EQ(runs[1], runs[3]);
  EXPECT_NE(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[4]);
}

TEST_F(StreamLoaderTest, ARunThatGoesOnPassesOverTheStepsThatWereDone) {
  const std::string tar = tar_of(20);
  put_epochs({tar, tar});
  StreamPlan wanted = plan();
  wanted.shuffle_buffer = 6;
  StreamLoader whole(wanted, pool_, 1, 0);
  reds(whole, 1);
  const std::vector<int> all = reds(whole, 2);
  StreamLoader resumed(wanted, pool_, 2, 3);  // the platform counts from 0 again
  EXPECT_EQ(reds(resumed, 2), std::vector<int>(all.begin() + 12, all.end()));
}

TEST_F(StreamLoaderTest, AShorterStreamEndsTheEpoch) {
  put_epochs({tar_of(10), tar_of(20)});
  StreamLoader stream(plan(), pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(8));
  EXPECT_EQ(reds(stream, 2), numbers(20));
  EXPECT_NE(warnings_.find("2 of 5 steps of epoch 1; 2 images are left over"), std::string::npos)
      << warnings_;
}

TEST_F(StreamLoaderTest, ARankThatEndsEarlierFindsItsNextEpoch) {
  put_epochs({tar_of(20), tar_of(20, 40)});
  StreamLoader stream(plan(), pool_, 1, 0);
  {
    const std::unique_ptr<Batches> batches = stream.epoch(1);
    EXPECT_TRUE(batches->await_step());
    ASSERT_NE(batches->next(), nullptr);
    batches->end_here();
    EXPECT_EQ(batches->next(), nullptr);
    EXPECT_FALSE(batches->await_step());
  }
  EXPECT_EQ(reds(stream, 2), numbers(20, 40));
  EXPECT_NE(warnings_.find("ends after 1 of 5 steps"), std::string::npos) << warnings_;
}

TEST_F(StreamLoaderTest, EachRankKeepsItsShareOfTheRecords) {
  put_epochs({tar_of(40)});
  StreamPlan wanted = plan();
  wanted.keep_one_of = 2;
  wanted.keep_which = 1;
  StreamLoader stream(wanted, pool_, 1, 0);
  const std::vector<int> mine = reds(stream, 1);
  ASSERT_EQ(mine.size(), 20U);
  for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i], static_cast<int>(2 * i + 1));
}

TEST_F(StreamLoaderTest, BadImagesAreNamed) {
  put_epochs({member(0) + tar_member("train/bad.png", "no image") +
              tar_member("train/bad.cls", "b") + member(2) + member(3) + tar_end()});
  StreamPlan wanted = plan();
  wanted.steps_per_epoch = 1;
  StreamLoader stream(wanted, pool_, 1, 0);
  const std::unique_ptr<Batches> batches = stream.epoch(1);
  const HostBatch* batch = batches->next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->count, 3);
  EXPECT_EQ(batch->nominal, 4);
  const std::vector<BadImage> faults = batches->take_faults();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].name, "train/bad.png");
  EXPECT_EQ(faults[0].sample, 1U);
}

TEST_F(StreamLoaderTest, TarsFollowEachOtherAndFoldersAreClasses) {
  std::string tar;
  for (int i = 0; i < 20; ++i)
    tar +=
        tar_member(std::string("x/") + "abc"[i % 3] + "/" + std::to_string(i) + ".png", image(i)) +
        (i == 3 ? tar_end() : "");
  put_epochs({tar + tar_end()});
  StreamLoader stream(plan(), pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
}

// A stream cannot go back to what a link leads to.
// As in an archive: a name has one content, and what is below or next to class folders is left out.
TEST_F(StreamLoaderTest, NamesAndFoldersAreThoseOfAnArchive) {
  std::string tar;
  for (int i = 0; i < 20; ++i) {
    const std::string folder = std::string("x/") + "abc"[i % 3];
    tar += tar_member(folder + "/./" + std::to_string(i) + ".png", image(i));
    if (i == 7) tar += tar_member(folder + "//7.png", image(7));
    if (i == 8)
      tar += tar_member(folder + "/a/9.png", image(99)) + tar_member("x/9.png", image(99));
  }
  put_epochs({tar + tar_end()});
  StreamLoader stream(plan(), pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
  for (const char* name : {"'x/b/7.png'", "'x/c/a/9.png'", "'x/9.png'"})
    EXPECT_NE(warnings_.find(name), std::string::npos) << warnings_;
  const auto fails_with = [&](const std::string& bytes, const std::string& what) {
    put_epochs({bytes + tar_of(20)});
    const std::string message = failure(plan());
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  fails_with(tar_member("a/1.png", image(0)) + tar_member("a/1.png", image(1)), "'a/1.png' twice");
  fails_with(tar_member("x/a/1.png", image(0)) + tar_member("b/2.png", image(1)),
             "beside each other");
  // A key ends with its tar: the label file of the next one is not this image's.
  fails_with(tar_member("a/k.png", image(0)) + tar_end() + tar_member("a/k.cls", "0"),
             "after 1 image");
}

TEST_F(StreamLoaderTest, LinksAreErrorsButForThoseThatAreNeverData) {
  std::string tar;
  for (int i = 0; i < 20; ++i) tar += member(i) + link("train/._" + std::to_string(i) + ".cls");
  put_epochs({tar + tar_end()});
  StreamLoader stream(plan(), pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
  put_epochs({member(0) + link("train/link.png") + tar_of(20)});
  EXPECT_NE(failure(plan(), ErrorCode::kInvalidDataset).find("'train/link.png'"),
            std::string::npos);
}

// The rule of label files is that of archives (data/dataset/listing.h).
TEST_F(StreamLoaderTest, LabelFilesBelongToTheirOwnImage) {
  std::string tar;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "train/set_0." + std::to_string(i);
    const std::string label = tar_member(name + ".cls", std::to_string(i % 3));
    const std::string photo = tar_member(name + ".png", image(i));
    tar += i % 2 == 0 ? photo + label : label + photo;
    tar += tar_member(name + ".seg.png", image(99));
  }
  put_epochs({tar + tar_end()});
  StreamLoader stream(plan(), pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
}

TEST_F(StreamLoaderTest, TwoLabelFilesThatAgreeLabelAnImageOnce) {
  std::string tar;
  for (int i = 0; i < 20; ++i)
    tar += member(i) + tar_member("train/" + std::to_string(i) + ".CLS", std::to_string(i % 3));
  put_epochs({tar + tar_end()});
  StreamLoader stream(plan(), pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
}

TEST_F(StreamLoaderTest, LabelFilesThatCannotBeMatchedAreErrors) {
  const auto fails_with = [&](const std::string& bytes, const std::string& words) {
    put_epochs({bytes + tar_of(20)});
    EXPECT_NE(failure(plan(), ErrorCode::kInvalidDataset).find(words), std::string::npos) << words;
  };
  fails_with(tar_member("a/1.png", image(0)), "after 1 image");
  fails_with(
      tar_member("k.1.png", image(0)) + tar_member("k.1.cls", "0") + tar_member("k.cls", "1"),
      "different labels");
  std::string many = tar_member("k.0.png", image(0)) + tar_member("k.0.cls", "0");
  for (int i = 1; i < 70; ++i) many += tar_member("k." + std::to_string(i) + ".png", image(0));
  fails_with(many, "more than 64 images");
  fails_with(tar_member("k.png", image(0)) + tar_member("k.cls", " \n"), "is empty");
}

TEST_F(StreamLoaderTest, DamageAndMissingLabelsAreErrors) {
  const std::string tar = tar_of(20);
  const auto fails_with = [&](const std::string& bytes, const std::string& words,
                              ErrorCode code = ErrorCode::kInvalidDataset) {
    put_epochs({bytes});
    const std::string text = failure(plan(), code);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_NE(text.find("train_0"), std::string::npos) << text;
  };
  fails_with(tar.substr(0, tar.size() / 2), "in the middle of a record");
  fails_with(member(0) + member(1), "before the tar's end marker");
  fails_with("", "before its first byte");
  fails_with("\x1f\x8b" + tar, "compressed");
  fails_with("no tar at all", "no tar");
  fails_with(tar_of(3), "after 3 images of epoch 1");
  fails_with(tar_of(3) + std::string(17 << 20, '\0'), "16 MiB of zeros");
  const auto huge = [](std::string& header) {
    header.replace(124, 12, "\x80" + std::string(3, '\0') + std::string(8, '\xff'));
  };
  fails_with(strange_member("notes.txt", huge) + tar, "more bytes than a file can have");
  put_epochs({tar_member("1.png", image(1)) + tar_end()});
  EXPECT_NE(failure(plan(), ErrorCode::kNotLabeledDataset).find("has no label"), std::string::npos);
  put_epochs({tar_member("z/1.png", image(1)) + tar_end()});
  EXPECT_NE(failure(plan()).find("not one of the 3 classes"), std::string::npos);
}

TEST_F(StreamLoaderTest, ANamedPipeIsWaitedForAndReadAgain) {
  const std::filesystem::path pipe = folder_.path() / "pipe";
  StreamLoader stream(plan("pipe"), pool_, 1, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    put(pipe, tar_of(22));  // of which two are left over
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    put(pipe, tar_of(20, 40));
  });
  EXPECT_EQ(reds(stream, 1), numbers(20));
  EXPECT_EQ(reds(stream, 2), numbers(20, 40));
  writer.join();
}

TEST_F(StreamLoaderTest, ASilentPipeIsWarnedOfAndThenAnError) {
  const std::filesystem::path pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  StreamPlan wanted = plan("pipe");
  wanted.silence.warning_seconds = 0.1;
  wanted.silence.deadline_seconds = 0.35;
  EXPECT_NE(failure(wanted).find("without a writer"), std::string::npos);
  EXPECT_NE(warnings_.find("pipe' is a pipe without a writer"), std::string::npos);
  const int writer = ::open(pipe.c_str(), O_RDWR);
  const std::string begin = tar_of(20).substr(0, 5000);
  ASSERT_EQ(::write(writer, begin.data(), begin.size()), static_cast<ssize_t>(begin.size()));
  const std::string text = failure(wanted);
  EXPECT_NE(text.find("has sent no data"), std::string::npos) << text;
  ::close(writer);
  wanted.path = (folder_ / "absent").string();
  EXPECT_NE(failure(wanted).find("does not exist"), std::string::npos);
}

// As of a record that claims any number of bytes.
TEST_F(StreamLoaderTest, DataWithoutImagesEndsAWaitLikeSilence) {
  const std::filesystem::path pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int writer = ::open(pipe.c_str(), O_RDWR);
  const std::string header = strange_member("notes.txt", [](std::string& bytes) {
    bytes.replace(124, 12, "07777777777" + std::string(1, '\0'));
  });
  ASSERT_EQ(::write(writer, header.data(), header.size()), 512);
  std::jthread writing([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      EXPECT_EQ(::write(writer, "some", 4), 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  StreamPlan wanted = plan("pipe");
  wanted.silence.warning_seconds = 0.1;
  wanted.silence.deadline_seconds = 0.35;
  const std::string text = failure(wanted);
  writing = {};
  ::close(writer);
  EXPECT_NE(text.find("has sent data but no image"), std::string::npos) << text;
  EXPECT_NE(warnings_.find("has sent data but no image"), std::string::npos) << warnings_;
}

// "1" is a class's number, and "3" is one's name: names go before numbers.
TEST_F(StreamLoaderTest, NumbersOfRecordsMayBeginWithOne) {
  std::string records;
  for (int i = 0; i < 20; ++i)
    records += tfrecord(example_of(
        {.name = {}, .bytes = image(i), .labels = {i % 3 + 1}, .class_text = {}}, "PNG"));
  put(folder_.path() / "train_0", records);
  StreamPlan wanted = plan();
  wanted.records.first_label = 1;
  wanted.classes = {"a", "b", "3"};
  StreamLoader stream(wanted, pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
  EXPECT_EQ(warnings_, "");
  wanted.records.first_label = 0;
  wanted.classes = {"a", "b", "c"};
  EXPECT_NE(failure(wanted).find("the label '3', which is not one of the 3 classes"),
            std::string::npos);
}

TEST_F(StreamLoaderTest, RecordsOfSeveralLabelsAreTold) {
  std::string records;
  for (int i = 0; i < 20; ++i)
    records += tfrecord(example_of(
        {.name = {}, .bytes = image(i), .labels = {i % 3, (i + 1) % 3}, .class_text = {}}, "PNG"));
  put(folder_.path() / "train_0", records);
  StreamPlan wanted = plan();
  wanted.records.first_label = 0;
  StreamLoader stream(wanted, pool_, 1, 0);
  EXPECT_EQ(reds(stream, 1), numbers(20));
  EXPECT_NE(warnings_.find("records with several labels"), std::string::npos) << warnings_;
}

}  // namespace
}  // namespace kiln
