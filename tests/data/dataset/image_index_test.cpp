// The index of a dataset: it saves the scan, never hides a change, and can be shared safely.
#include "data/dataset/image_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "data/archive/archive.h"
#include "data/dataset/readers.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

class IndexTest : public testing::Test {
 protected:
  IndexTest() {
    for (const char* name : {"cat/1.png", "cat/2.png", "dog/3.png"}) put_image(name, 8);
    age();
  }
  void put_image(const std::string& name, int side) {
    data_.put(name, test::encode_png(test::plain(side, side, 1, 2, 3)));
  }
  // As if no file had changed for an hour.
  void age() {
    const auto then = fs::file_time_type::clock::now() - hours(1);
    for (const auto& entry : fs::recursive_directory_iterator(data_.path()))
      fs::last_write_time(entry, then);
  }
  Dataset read(bool with_sizes = false) {
    return read_indexed_dataset(data_.path(), "Training dataset", {index_, with_sizes});
  }
  // Adds to the index what no scan would find.
  void mark(const fs::path& index) {
    Dataset set = read_labeled({.root = data_.path(), .name = "Data", .is_indexed = true});
    set.notes.emplace_back("from the index");
    write_index(index, set);
  }
  // As on mounts of object stores.
  void forget_folder_times() {
    for (const char* name : {"", "cat", "dog"})
      fs::last_write_time(data_ / name,
                          fs::file_time_type::clock::from_sys(std::chrono::sys_seconds()));
  }
  static bool is_from_index(const Dataset& set) {
    return std::ranges::count(set.notes, "from the index") > 0;
  }

  ScratchFolder data_, elsewhere_;
  fs::path index_ = elsewhere_ / "list.index";
};

TEST_F(IndexTest, ImagesThatShowLittleAreTold) {
  EXPECT_NE(note_of_lost_contrast(read()).find("one color"), std::string::npos);
  Image dark = test::gradient(8, 8);
  for (std::uint8_t& value : dark.pixels) value /= 4;  // 14 of 16 bits
  data_.put("dog/3.png", test::encode_png(dark));
  EXPECT_NE(note_of_lost_contrast(read()).find("nearly black"), std::string::npos);
  data_.put("dog/3.png", test::encode_png(test::gradient(8, 8)));
  EXPECT_EQ(note_of_lost_contrast(read()), "");
}

TEST_F(IndexTest, TheSecondRunUsesTheIndex) {
  const Dataset first = read();
  ASSERT_TRUE(fs::exists(index_));
  EXPECT_EQ(read().notes, first.notes);
  mark(index_);
  const Dataset second = read();
  ASSERT_TRUE(is_from_index(second));
  ASSERT_EQ(second.samples.size(), 3U);
  EXPECT_EQ(second.samples.file_name(1), "cat/2.png");
  EXPECT_EQ(second.samples.label(2), 1);
  EXPECT_EQ(second.classes, first.classes);
  EXPECT_EQ(second.schema_json, first.schema_json);
  EXPECT_EQ(second.name, "Training dataset");
}

// New, moved and overwritten images are seen, whatever the times of the folders and files say.
TEST_F(IndexTest, FolderTimesAreNotTrusted) {
  forget_folder_times();
  read();
  ASSERT_TRUE(fs::exists(index_));
  const auto change = [&](const std::function<void()>& action) {
    mark(index_);
    action();
    age();
    forget_folder_times();
    const Dataset set = read();
    EXPECT_FALSE(is_from_index(set));
    return set.samples.size();
  };
  EXPECT_EQ(change([&] { put_image("cat/new.png", 8); }), 4U);
  EXPECT_EQ(change([&] { fs::rename(data_ / "cat/new.png", data_ / "dog/new.png"); }), 4U);
  EXPECT_EQ(change([&] { fs::rename(data_ / "dog/new.png", data_ / "dog/old.png"); }), 4U);
  EXPECT_EQ(change([&] { put_image("cat/1.png", 300); }), 4U);
  EXPECT_EQ(change([&] { fs::remove(data_ / "dog/old.png"); }), 3U);
}

TEST_F(IndexTest, AFileOfTheSameSizeAndTimeIsReadAgain) {
  const std::string one = test::encode_png(test::plain(8, 8, 1, 2, 3));
  const auto then = fs::file_time_type::clock::now() - hours(1);
  read();
  mark(index_);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a tick of the system's clock
  data_.put("cat/1.png", std::string(one.size(), 'x'));
  fs::last_write_time(data_ / "cat/1.png", then);
  EXPECT_FALSE(is_from_index(read()));
}

// As folder times, the time of an archive can be set back.
TEST(IndexOfArchives, AnArchiveOfTheSameSizeAndTimeIsReadAgain) {
  const ScratchFolder folder;
  const auto then = fs::file_time_type::clock::now() - hours(1);
  const auto read_with = [&](const std::string& image) {
    folder.put("a.tar", tar_member("cat/" + image, "1") + tar_member("dog/2.png", "2") + tar_end());
    fs::last_write_time(folder / "a.tar", then);
    const IndexUse use{.file = folder / "index"};
    return std::string(read_indexed_dataset(folder / "a.tar", "Data", use).samples.file_name(0));
  };
  EXPECT_EQ(read_with("1.png"), "cat/1.png");
  ASSERT_TRUE(fs::exists(folder / "index"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a tick of the system's clock
  EXPECT_EQ(read_with("3.png"), "cat/3.png");
}

TEST_F(IndexTest, AWrongClockInTheFutureDoesNotKeepTheIndexAway) {
  fs::last_write_time(data_ / "cat/1.png", fs::file_time_type::clock::now() + hours(100));
  read();
  EXPECT_TRUE(fs::exists(index_));
}

TEST_F(IndexTest, AnIndexWithPathsThatLeadOutIsRebuilt) {
  const Dataset good = read();
  for (const char* name : {"../cat/1.png", "cat/../../1.png", "/etc/passwd", "cat/.."}) {
    Dataset bad = read();
    bad.samples.push_back({.file_name = name, .label = 0, .id = 3, .size = {}});
    write_index(index_, bad);
    const Dataset again = read();
    EXPECT_EQ(again.samples.size(), 3U) << name;
    ASSERT_EQ(again.notes.size(), 1U);
    EXPECT_NE(again.notes[0].find("is damaged"), std::string::npos) << again.notes[0];
  }
  Dataset bad = read();
  bad.samples.set_label(1, 2);
  write_index(index_, bad);
  EXPECT_EQ(read().samples.label(1), good.samples.label(1));
  bad.samples.set_label(1, 0);
  bad.samples.push_back({.file_name = "cat/a..b/..c.png", .label = 1, .id = 3, .size = {}});
  write_index(index_, bad);
  EXPECT_EQ(read().samples.size(), 4U);
}

TEST_F(IndexTest, AddedImagesAndClassesAndRemovedImagesAreDetected) {
  read();
  put_image("dog/4.png", 8);
  Dataset set = read();
  EXPECT_EQ(set.samples.size(), 4U);
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("is out of date"), std::string::npos) << set.notes[0];
  age();
  EXPECT_EQ(read().notes.size(), 1U) << "the index was not written while a file was new";
  EXPECT_EQ(read().notes.size(), 0U);
  put_image("elk/5.png", 8);
  EXPECT_EQ(read().classes.size(), 3U);
  fs::remove_all(data_ / "elk");
  EXPECT_EQ(read().classes.size(), 2U);
}

TEST_F(IndexTest, NoIndexIsWrittenForFilesThatHaveJustChanged) {
  put_image("dog/4.png", 8);
  read();
  EXPECT_FALSE(fs::exists(index_));
}

TEST_F(IndexTest, DamagedIndexesAreRebuilt) {
  read();
  const std::string good = bytes_of(index_);
  for (std::size_t i = 7; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    elsewhere_.put("list.index", bad);
    const Dataset set = read();
    ASSERT_EQ(set.samples.size(), 3U) << i;
    ASSERT_EQ(set.notes.size(), 1U) << i;
    ASSERT_NE(set.notes[0].find("is damaged"), std::string::npos) << set.notes[0];
    ASSERT_EQ(bytes_of(index_), good) << i;
  }
  elsewhere_.put("list.index", good.substr(0, good.size() / 2));
  EXPECT_EQ(read().notes.size(), 1U);
  elsewhere_.put("list.index", "");
  EXPECT_EQ(read().notes.size(), 1U);
  EXPECT_EQ(read().notes.size(), 0U);
}

TEST_F(IndexTest, SizesAreStoredAndNotReadAgain) {
  for (int i = 0; i < 200; ++i) put_image("cat/" + std::to_string(1000 + i) + ".png", 8);
  age();
  read(/*with_sizes=*/false);
  EXPECT_EQ(read(/*with_sizes=*/true).samples[1].size, (ImageSize{8, 8}));
  Dataset set = read_labeled({.root = data_.path(), .name = "Data", .is_indexed = true});
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    set.samples.set_size(i, i == 1 ? ImageSize{9, 9} : ImageSize{8, 8});
  set.sizes_with = set.exif;
  write_index(index_, set);
  EXPECT_EQ(read(/*with_sizes=*/true).samples[1].size, (ImageSize{9, 9}));
}

TEST_F(IndexTest, SizesAreReadOnlyUntilTwoDiffer) {
  for (int i = 0; i < 300; ++i) put_image("dog/" + std::to_string(1000 + i) + ".png", 8 + i % 2);
  Dataset set = read_labeled_dataset(data_.path(), "Training dataset");
  EXPECT_LT(scan_sizes(set, SizesWanted::kCommon), set.samples.size());
  EXPECT_EQ(common_size({&set}), std::nullopt);
  scan_sizes(set, SizesWanted::kAll);
  for (const Sample& item : set.samples) EXPECT_TRUE(item.size) << item.file_name;
}

// Entries of the folder, including hidden ones.
std::size_t num_entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

class CacheTest : public IndexTest {
 protected:
  CacheTest() {
    ::setenv("XDG_CACHE_HOME", (elsewhere_ / "cache").c_str(), 1);
    index_.clear();
  }
  ~CacheTest() override { ::unsetenv("XDG_CACHE_HOME"); }
  void put_many_images() {
    for (int i = 0; i < 1000; ++i) data_.put("cat/x" + std::to_string(i) + ".jpg");
    age();
  }
};

TEST_F(CacheTest, LargeDatasetsAreIndexedInTheCacheAndNotInTheData) {
  put_many_images();
  read();
  EXPECT_EQ(num_entries(data_.path()), 2U);
  ASSERT_EQ(num_entries(elsewhere_ / "cache/kiln"), 1U);
  EXPECT_EQ(read().notes.size(), 0U);
  mark(index_in_cache(data_.path()));
  EXPECT_TRUE(is_from_index(read()));
  const ScratchFolder links;
  fs::create_directory_symlink(data_.path(), links / "link");
  EXPECT_EQ(read_indexed_dataset(links / "link", "Data", {}).samples.size(), 1003U)
      << "found by the real path";
  EXPECT_EQ(num_entries(elsewhere_ / "cache/kiln"), 1U);
}

TEST_F(CacheTest, SmallDatasetsAreNotIndexed) {
  read();
  EXPECT_FALSE(fs::exists(elsewhere_ / "cache"));
}

TEST_F(CacheTest, AnIndexInsideTheDataIsUsedOnlyForShards) {
  put_many_images();
  read();
  const fs::path made = index_in_cache(data_.path());
  fs::copy(made, data_ / ".kiln-index");  // as kiln 0.1.0 left it
  fs::remove_all(elsewhere_ / "cache");
  mark(data_ / ".kiln-index");
  EXPECT_FALSE(is_from_index(read()));
}

TEST_F(CacheTest, WithoutACacheFolderNothingIsStored) {
  put_many_images();
  elsewhere_.put("cache", "a file where the folder would be");
  EXPECT_EQ(read().samples.size(), 1003U);
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(index_in_cache(data_.path()), fs::path());
  EXPECT_EQ(read().samples.size(), 1003U);
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
}

TEST_F(IndexTest, JobsThatStartTogetherLeaveAValidIndex) {
  {
    std::vector<std::jthread> jobs;
    for (int i = 0; i < 8; ++i)
      jobs.emplace_back([this] {
        for (int round = 0; round < 20; ++round) {
          ASSERT_EQ(read().samples.size(), 3U);
          ASSERT_EQ(read().notes.size(), 0U);
          fs::remove(index_);
        }
      });
  }
  read();
  EXPECT_EQ(read().notes.size(), 0U);
  EXPECT_EQ(std::distance(fs::directory_iterator(elsewhere_.path()), {}), 1) << "leftovers";
}

// The folders of an ImageDirectory or a COCO file are listed again, too.
TEST(IndexOfLists, ADeletedListedFileIsDetected) {
  const ScratchFolder data;
  data.put("images/a.jpg");
  data.put("images/b.jpg");
  data.put("labels.json",
           R"({"images": [{"id": 1, "file_name": "images/a.jpg"},
                          {"id": 2, "file_name": "images/b.jpg"}],
               "annotations": [{"image_id": 1, "category_id": 0},
                               {"image_id": 2, "category_id": 0}],
               "categories": [{"id": 0, "name": "cat"}]})");
  const auto then = fs::file_time_type::clock::now() - hours(1);
  for (const char* name : {"images/a.jpg", "images/b.jpg", "labels.json"})
    fs::last_write_time(data / name, then);
  const ScratchFolder elsewhere;
  const auto read = [&] {
    return read_indexed_dataset(data.path(), "Data", {elsewhere / "index", false});
  };
  EXPECT_EQ(read().samples.size(), 2U);
  ASSERT_TRUE(fs::exists(elsewhere / "index"));
  EXPECT_EQ(read().samples.size(), 2U);
  fs::remove(data / "images/b.jpg");
  EXPECT_NE(error_of(read).message().find("'images/b.jpg' is missing"), std::string::npos);
}

}  // namespace
}  // namespace kiln
