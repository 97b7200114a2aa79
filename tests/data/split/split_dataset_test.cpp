#include "data/split/split_dataset.h"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "data/image/image.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"
#include "data/split/drawn_folder.h"
#include "tools/demo_data/demo_data.h"

namespace kiln {
namespace {

class SplitDatasetTest : public testing::Test {
 protected:
  void draw(const std::string& name, int index) const { folder_.draw(name, index); }
  void draw_classes(int count) const { folder_.draw_classes(count, 2); }
  SplitDataset split(const SplitRequest& request = {}) const {
    return split_dataset(read_labeled_dataset(folder_.path(), "Dataset"), request,
                         {.num_threads = 2});
  }
  std::string fault(const SplitRequest& request = {}) const {
    return error_of([&] { split(request); }).message();
  }
  std::size_t number_of(const SplitDataset& split, const std::string& name) const {
    std::size_t i = 0;
    while (i < split.set.samples.size() && split.set.samples.file_name(i) != name) ++i;
    return i;
  }

  test::DrawnFolder folder_;
};

void expect_word(const std::string& text, const std::string& word) {
  EXPECT_NE(text.find(word), text.npos) << text;
}

TEST_F(SplitDatasetTest, KeepsCopiesTogetherAndTheirHashes) {
  draw_classes(10);
  const Image image = draw_demo_image(0, 96, 3, 7);
  folder_.put("cat/large.png", test::encode_png(image));
  folder_.put("cat/again.png", test::encode_png(image));
  folder_.put("dog/jpeg.jpg", encode_jpeg(image, 60));
  folder_.put("dog/broken.png", "no image");
  const SplitDataset made = split();
  ASSERT_EQ(made.duplicates.exact.size(), 1U);
  ASSERT_EQ(made.duplicates.near.size(), 1U);
  const std::size_t one = number_of(made, "cat/large.png"), copy = number_of(made, "cat/again.png"),
                    jpeg = number_of(made, "dog/jpeg.jpg");
  EXPECT_EQ(made.groups[one], made.groups[copy]);
  EXPECT_EQ(made.groups[one], made.groups[jpeg]);
  EXPECT_EQ(made.sides[one], made.sides[jpeg]);
  EXPECT_EQ(made.set.samples.hash(one), content_hash(test::encode_png(image)));
  EXPECT_EQ(made.set.samples.hash(number_of(made, "dog/broken.png")), 0U);
  expect_word(made.summary, "(20 % of each class; 1 group of duplicates kept together)");
}

TEST_F(SplitDatasetTest, DoesNotDependOnThreadsOrNames) {
  draw_classes(6);
  const SplitDataset made = split();
  Dataset set = read_labeled_dataset(folder_.path(), "Dataset");
  EXPECT_EQ(split_dataset(std::move(set), {}, {.num_threads = 1}).sides, made.sides);
  std::filesystem::rename(folder_ / "cat", folder_ / "cat2");
  EXPECT_EQ(split().sides, made.sides);
}

TEST_F(SplitDatasetTest, GroupsByThePath) {
  draw_classes(20);
  const SplitDataset made = split({.group_by = "(p\\d+)_"});
  for (std::size_t i = 0; i + 1 < 20; i += 2) EXPECT_EQ(made.sides[i], made.sides[i + 1]);
  expect_word(made.summary, "with 10 groups of several images kept together");
}

TEST_F(SplitDatasetTest, AListGivesSetsAndGroups) {
  draw_classes(4);
  const auto read = [&](const std::string& column, const std::vector<std::string>& values,
                        const RecordOptions& options = {}) {
    std::string text = "path,label," + column + "\n";
    std::size_t i = 0;
    for (const Sample& item : read_dataset(folder_.path(), "Dataset").samples) {
      const std::string name(item.file_name);
      text +=
          name + "," + name.substr(0, name.find('/')) + "," + values[i++ % values.size()] + "\n";
    }
    folder_.put("list.csv", text);
    return read_labeled_dataset(folder_.path() / "list.csv", "Dataset", options);
  };
  const RecordOptions sets{.list_sets = {"train", "valid"}};
  const SplitDataset by_list = split_dataset(
      read("split", {"train", "valid", "train", "test"}, sets), {}, {.num_threads = 2});
  ASSERT_EQ(by_list.sides.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(by_list.sides[i], i % 3 == 1 ? Side::kValid : Side::kTrain);
  expect_word(by_list.summary, "column split");
  EXPECT_THROW(split_dataset(read("split", {"train", "valid"}), {.group_by = "."}, {}), Problems);
  const std::vector<std::string> class_by_class = {"train", "train", "train", "train",
                                                   "valid", "valid", "valid", "valid"};
  EXPECT_THROW(split_dataset(read("split", class_by_class), {}, {}), Problems);
  const SplitDataset grouped =
      split_dataset(read("group", {"a", "b", "a", ""}), {}, {.num_threads = 2});
  EXPECT_EQ(grouped.groups[0], grouped.groups[2]);
  EXPECT_NE(grouped.groups[0], grouped.groups[1]);
  EXPECT_NE(grouped.groups[3], grouped.groups[7]);
  expect_word(grouped.summary, "kept together");
}

TEST_F(SplitDatasetTest, GroupsWithImagesInTwoListsAreNoted) {
  draw_classes(4);
  const auto note = [&](const std::vector<std::string>& train,
                        const std::vector<std::string>& valid) {
    const auto listed = [&](const std::string& name, const std::vector<std::string>& groups) {
      std::string list = "path,label,group\n";
      std::size_t i = 0;
      for (const Sample& item : read_dataset(folder_.path(), "Dataset").samples) {
        const std::string file(item.file_name);
        list +=
            file + "," + file.substr(0, file.find('/')) + "," + groups[i++ % groups.size()] + "\n";
      }
      folder_.put(name, list);
      return read_labeled_dataset(folder_.path() / name, "Dataset");
    };
    return note_of_torn_groups(listed("train.csv", train), listed("valid.csv", valid));
  };
  EXPECT_EQ(note({"a", "b"}, {"c", "d", ""}), "");
  EXPECT_EQ(note({""}, {""}), "");
  expect_word(note({"a", "b"}, {"c", " b", ""}), "1 group of the list has");
  expect_word(note({"a", "b", "c"}, {"c", "b"}), "2 groups");
}

TEST_F(SplitDatasetTest, NotesPathsThatAPatternDoesNotMatch) {
  draw_classes(6);
  EXPECT_TRUE(split({.group_by = "[0-9]+"}).set.notes.empty());
  const Dataset set = read_labeled_dataset(folder_.path(), "Dataset");
  const std::string first(set.samples.file_name(0));
  draw("dog/P1-a.png", 900);
  const std::vector<std::string> notes = split({.group_by = "/([^P]+)"}).set.notes;
  ASSERT_EQ(notes.size(), 1U);
  expect_word(notes[0], "--group-by '/([^P]+)' does not match 1 of ");
  expect_word(notes[0], "'dog/P1-a.png'");
  EXPECT_EQ(notes[0].find(first), std::string::npos);
}

TEST_F(SplitDatasetTest, SaysWhyNothingCanBeSplit) {
  draw("cat/1.png", 1);
  draw("cat/2.png", 2);
  expect_word(fault(), "one class, 'cat'");
  std::filesystem::remove(folder_ / "cat/2.png");
  draw("dog/1.png", 3);
  expect_word(fault(), "only one image");
  draw("dog/2.png", 4);
  expect_word(fault({.group_by = "png"}), "one group of images by --group-by 'png'");
  expect_word(fault({.group_by = "^\\w+"}), "one group of images");
  expect_word(fault({.group_by = "bird"}), "matches no path");
}

TEST_F(SplitDatasetTest, TellsTheFaultsOfBothFilesTogether) {
  draw_classes(3);
  folder_.put("split.csv", "path\n");
  folder_.put("labels.csv", "path\n");
  Problems problems;
  problems.collect(
      [&] { split({.split_file = folder_ / "split.csv", .labels_file = folder_ / "labels.csv"}); });
  EXPECT_EQ(problems.errors().size(), 2U);
  problems = {};
  problems.collect([&] { split({.split_file = folder_ / "nowhere.csv"}); });
  ASSERT_EQ(problems.errors().size(), 1U);
  expect_word(problems.errors()[0].message(), "nowhere.csv' cannot be read");
}

TEST(ScanImages, OfManyReadsWholeOnlyWhatBeginsAlike) {
  ScratchFolder folder;
  folder.put("cat/0.png", std::string(20'000, 'a') + "1");
  folder.put("cat/1.png", std::string(20'000, 'a') + "2");
  folder.put("cat/2.png", std::string(20'000, 'a') + "1");
  Dataset set = read_labeled_dataset(folder.path(), "Dataset");
  while (set.samples.size() <= kMaxDecodedImages)
    set.samples.push_back({.file_name = "cat/gone", .label = 0, .id = 0, .size = {}});
  const ScannedImages scanned = scan_images({&set}, {.num_threads = 4});
  EXPECT_TRUE(scanned.looks.empty());
  EXPECT_EQ(scanned.hashes[0], scanned.hashes[2]);
  EXPECT_NE(scanned.hashes[0], scanned.hashes[1]);
  EXPECT_EQ(find_duplicates(scanned).exact, (std::vector<ImagePair>{{0, 2}}));
}

TEST(ScanImages, VisitorsChooseTheResolutionAndHearOfTheWhole) {
  ScratchFolder folder;
  folder.put("cat/0.jpg", test::encode_jpeg(test::gradient(640, 320)));
  folder.put("cat/1.jpg", "no image");
  Dataset set = read_labeled_dataset(folder.path(), "Dataset");
  while (set.samples.size() <= kMaxDecodedImages)
    set.samples.push_back({.file_name = "cat/gone", .label = 0, .id = 0, .size = {}});
  ImageSize shown, stored;
  std::atomic<int> visits = 0;
  const ScannedImages scanned = scan_images(
      {&set}, {.num_threads = 4,
               .shrink = [](ImageSize whole) { return whole.height / 40.0; },
               .visit =
                   [&](std::size_t i, const Image& image, ImageSize whole, std::string_view bytes) {
                     EXPECT_EQ(i, 0U);
                     shown = image.size;
                     stored = whole;
                     EXPECT_EQ(image_kind(bytes), "JPEG");
                     ++visits;
                   },
               .decode_all = true});
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(std::pair(stored.height, stored.width), std::pair(640, 320));
  EXPECT_EQ(std::pair(shown.height, shown.width), std::pair(160, 80)) << "a quarter, from 16 on";
  EXPECT_FALSE(scanned.looks[0].is_empty);
  EXPECT_NE(scanned.hashes[1], 0U);
  EXPECT_EQ(scanned.hashes[2], 0U);
}

TEST(PartOf, KeepsSizesIdsAndHashes) {
  Dataset set;
  set.classes = {"cat"};
  for (int i = 0; i < 3; ++i)
    set.samples.push_back(
        {.file_name = std::to_string(i), .label = 0, .id = i, .size = ImageSize{8, i}});
  set.samples.keep_hashes();
  set.samples.set_hash(2, 42);
  const Dataset part = part_of(set, {true, false, true});
  ASSERT_EQ(part.samples.size(), 2U);
  EXPECT_EQ(part.samples[1].id, 2);
  EXPECT_EQ(part.samples[1].file_name, "2");
  EXPECT_EQ(part.samples.hash(1), 42U);
}

}  // namespace
}  // namespace kiln
