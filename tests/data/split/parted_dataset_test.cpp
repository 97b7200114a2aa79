// The numbers of a split; parity.split compares many of them with scikit-learn's.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/image/image.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"
#include "data/split/drawn_folder.h"
#include "data/split/split.h"
#include "tools/convert/convert.h"
#include "tools/demo_data/demo_data.h"

namespace kiln {
namespace {

using Counts = std::vector<long long>;
using Table = std::vector<Counts>;

TEST(PartSizes, RoundDownAndTheLastHasTheRest) {
  EXPECT_EQ(part_sizes({0.9, 0.1}, 60), (Counts{54, 6}));
  EXPECT_EQ(part_sizes({0.29, 0.71}, 100), (Counts{28, 72}));  // 0.29 is a little less than that
  EXPECT_EQ(part_sizes({0.8, 0.1, 0.1}, 284), (Counts{227, 28, 29}));
}

TEST(PartSizes, LeaveNoPartEmpty) {
  for (long long n = 2; n < 300; ++n) {
    const double least = 1.0 / static_cast<double>(n);
    EXPECT_EQ(part_sizes({least, 1 - least}, n), (Counts{1, n - 1}));
    EXPECT_EQ(part_sizes({1 - least, least}, n)[1], 1) << n;
  }
}

TEST(ShareOut, GivesTheLargestRemaindersWhatLacks) {
  // 4.9, 4.9 and 4.2 images
  EXPECT_EQ(share_out({{"a", 7}, {"b", 7}, {"c", 6}}, {14, 6}).wanted,
            (Table{{5, 5, 4}, {2, 2, 2}}));
  EXPECT_EQ(share_out({{"a", 70}, {"b", 30}}, {28, 72}).wanted, (Table{{20, 8}, {50, 22}}));
}

TEST(ShareOut, DrawsTiesInTheOrderOfTheNames) {
  // What the original does with ten images each of zebra, ant and bee, at 0.35.
  EXPECT_EQ(share_out({{"zebra", 10}, {"ant", 10}, {"bee", 10}}, {10, 20}).wanted,
            (Table{{3, 4, 3}, {7, 6, 7}}));
}

TEST(ShareOut, DividesIntoThree) {
  const Table wanted = share_out({{"a", 50}, {"b", 33}, {"c", 17}}, {80, 10, 10}).wanted;
  ASSERT_EQ(wanted.size(), 3U);
  EXPECT_EQ(wanted[0], (Counts{40, 26, 14}));
  for (std::size_t c = 0; c < 3; ++c)
    EXPECT_EQ(wanted[0][c] + wanted[1][c] + wanted[2][c], (Counts{50, 33, 17})[c]);
  for (const Counts& part : wanted) EXPECT_GT(*std::min_element(part.begin(), part.end()), 0);
}

TEST(ShareOut, SaysWhyNotByClass) {
  EXPECT_EQ(share_out({{"a", 9}, {"b", 1}}, {5, 5}).why_not, "class 'b' has only 1 image");
  EXPECT_EQ(share_out({{"a", 9}, {"b", 2}}, {4, 4, 3}).why_not, "class 'b' has only 2 images");
  EXPECT_EQ(share_out({{"a", 9}, {"b", 9}}, {17, 1}).why_not,
            "the smallest part has 1 image, fewer than the 2 classes");
  EXPECT_TRUE(share_out({{"a", 9}, {"b", 1}}, {5, 5}).wanted.empty());
}

class PartedDatasetTest : public testing::Test {
 protected:
  void draw(const std::string& name, int index) const { folder_.draw(name, index); }
  void draw_classes(int count) const { folder_.draw_classes(count, 5); }
  static PartsRequest halves() { return {.names = {"train", "test"}, .fractions = {0.5, 0.5}}; }
  PartedDataset split(const PartsRequest& request) const {
    Dataset set = read_dataset(folder_.path(), "Input dataset");
    check_parts(request, set);
    return split_into_parts(std::move(set), request, {.num_threads = 2});
  }
  Error fault(const PartsRequest& request) const {
    Problems problems;
    problems.collect([&] { split(request); });
    EXPECT_EQ(problems.errors().size(), 1U);
    return problems.empty() ? Error(ErrorCode::kUserError, "no fault") : problems.errors().front();
  }

  test::DrawnFolder folder_;
};

TEST_F(PartedDatasetTest, DividesEachClassByBytesAndSeed) {
  draw_classes(10);
  const PartedDataset made = split(halves());
  EXPECT_EQ(made.summary, "10 train, 10 test images of 2 classes, stratified by class");
  EXPECT_TRUE(made.set.notes.empty());
  EXPECT_EQ(split(halves()).parts, made.parts);
  PartsRequest other = halves();
  other.seed = 43;
  EXPECT_NE(split(other).parts, made.parts);
}

TEST_F(PartedDatasetTest, CopiesArePartedUnlessTheyAreKeptTogether) {
  draw_classes(5);
  const Image image = draw_demo_image(0, 96, 3, 7);
  for (int i = 0; i < 8; ++i)
    folder_.put("cat/copy" + std::to_string(i) + ".jpg", encode_jpeg(image, 95 - 5 * i));
  PartsRequest request = halves();
  EXPECT_EQ(split(request).leaks.size(), 1U);
  request.keep_duplicates_together = true;
  EXPECT_TRUE(split(request).leaks.empty());
}

TEST_F(PartedDatasetTest, LeaksAreFoundBetweenTwoDatasets) {
  const Image one = draw_demo_image(0, 96, 3, 7), two = draw_demo_image(1, 96, 3, 8);
  folder_.put("train/cat/a.jpg", encode_jpeg(one, 95));
  folder_.put("train/cat/b.jpg", encode_jpeg(two, 95));
  folder_.put("train/cat/c.jpg", encode_jpeg(two, 90));
  folder_.put("valid/dog/d.jpg", encode_jpeg(two, 95));
  folder_.put("valid/dog/e.jpg", encode_jpeg(one, 60));
  folder_.put("valid/dog/f.jpg", encode_jpeg(draw_demo_image(2, 96, 3, 9), 95));
  Dataset train = read_dataset(folder_.path() / "train", "Training images");
  Dataset valid = read_dataset(folder_.path() / "valid", "Validation images");
  const std::vector<Leak> leaks = leaks_between(train, valid, {.num_threads = 2});
  ASSERT_EQ(leaks.size(), 2U);
  EXPECT_EQ(leaks[0].images, (std::vector<std::uint32_t>{0, 4}));
  EXPECT_FALSE(leaks[0].same_bytes);
  EXPECT_EQ(leaks[1].images, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_TRUE(leaks[1].same_bytes);
  EXPECT_EQ(valid.samples.hash(0), train.samples.hash(1));
}

TEST_F(PartedDatasetTest, SaysWhatIsNotAsRequested) {
  draw_classes(10);
  draw("one/x.png", 500);
  const PartedDataset made = split(halves());
  ASSERT_EQ(made.set.notes.size(), 2U);
  EXPECT_NE(made.set.notes[0].find("class 'one' has only 1 image"), std::string::npos);
  EXPECT_NE(made.set.notes[1].find("has no image of 'one'"), std::string::npos);
  PartsRequest request = halves();
  request.by_class = false;
  EXPECT_EQ(split(request).set.notes.size(), 1U);
}

TEST_F(PartedDatasetTest, RefusesWhatCannotBe) {
  draw_classes(5);
  PartsRequest request = halves();
  request.fractions = {0.95, 0.05};
  EXPECT_EQ(fault(request).code(), ErrorCode::kNotInRangeValue);
  request.fractions = {0.9, 1 - 0.9};
  split(request);
  request.group_by = "cat/";
  EXPECT_NE(split(request).set.notes.at(0).find("--group-by 'cat/' does not match 5 of 10"),
            std::string::npos);
  request.group_by = "nothing";
  EXPECT_NE(fault(request).message().find("matches no path"), std::string::npos);
  request.group_by = "(p)[0-9]";
  EXPECT_EQ(fault(request).code(), ErrorCode::kInvalidDataset);
  EXPECT_NE(fault(request).message().find("by --group-by"), std::string::npos);
}

TEST_F(PartedDatasetTest, RefusesASingleImage) {
  draw("cat/a.png", 1);
  EXPECT_EQ(fault(halves()).code(), ErrorCode::kInvalidDataset);
}

// Lines of a list stay as they are, with what only others understand.
TEST_F(PartedDatasetTest, PartsOfAnImageDirectoryKeepNamesIdsAndLines) {
  std::string list;
  for (int i = 0; i < 6; ++i) {
    const std::string name = "deep/" + std::to_string(i) + ".png";
    draw(name, i);
    list += R"({"image_info": {"file_name": ")" + name + R"(", "license": 7}, "id": )" +
            std::to_string(90 - i) + "}\n" + (i == 2 ? "\n" : "");
  }
  folder_.put("images.lst", list);
  folder_.put("_schema.json", R"({"columnAttributes": [{"name": "image", "properties": )"
                              R"({"image_ref": "image_info"}}]})");
  const PartedDataset made = split(halves());
  const ScratchFolder output;
  std::string both;
  for (const std::uint8_t part : {0, 1}) {
    const auto folder = output.path() / std::to_string(part);
    std::vector<bool> keep;
    for (const std::uint8_t p : made.parts) keep.push_back(p == part);
    ImageDirectoryOutput complete(made.set, keep, OutputFolder(folder));
    EXPECT_FALSE(std::filesystem::exists(folder / "images.lst"));
    complete.put_in_place();
    both += bytes_of(folder / "images.lst");
    EXPECT_EQ(read_dataset(folder, "Part").samples.size(), 3U);
    EXPECT_EQ(bytes_of(folder / "_schema.json"), bytes_of(folder_.path() / "_schema.json"));
  }
  for (int i = 0; i < 6; ++i)
    EXPECT_NE(both.find(R"("license": 7}, "id": )" + std::to_string(90 - i) + "}\n"), both.npos);
}

}  // namespace

}  // namespace kiln
