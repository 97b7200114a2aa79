// The demo data: repeatable, labeled by folder, distinct and readable.
#include <gtest/gtest.h>

#include <set>

#include "data/dataset/dataset.h"
#include "data/scratch_folder.h"
#include "tools/demo_data/demo_data.h"

namespace kiln {
namespace {

TEST(DemoShapes, EqualKeysGiveEqualImagesAndOthersDoNot) {
  std::set<std::string_view> names;
  for (int shape = 0; shape < kMaxDemoClasses; ++shape) {
    const Image image = draw_demo_image(shape, 32, 1, 5);
    EXPECT_EQ(image.pixels.size(), 32U * 32U * 3U);
    EXPECT_EQ(image.pixels, draw_demo_image(shape, 32, 1, 5).pixels);
    EXPECT_NE(image.pixels, draw_demo_image(shape, 32, 2, 5).pixels);
    EXPECT_NE(image.pixels, draw_demo_image(shape, 32, 1, 6).pixels);
    EXPECT_NE(image.pixels, draw_demo_image((shape + 1) % kMaxDemoClasses, 32, 1, 5).pixels);
    names.insert(demo_class_name(shape));
  }
  EXPECT_EQ(names.size(), std::size_t{kMaxDemoClasses});
}

TEST(DemoShapes, TheShapeCoversMuchOfTheImage) {
  const Image image = draw_demo_image(1, 64, 3, 0);
  const auto pixel = [&](int y, int x) { return &image.pixels[(y * 64 + x) * 3]; };
  int differing = 0;
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) {
      int difference = 0;
      for (int c = 0; c < 3; ++c) difference += std::abs(pixel(y, x)[c] - pixel(0, 0)[c]);
      differing += difference > 75 ? 1 : 0;
    }
  }
  EXPECT_GT(differing, 64 * 64 / 6);
  EXPECT_LT(differing, 64 * 64 * 3 / 4);
}

TEST(DemoWriter, WritesClassFoldersOfJpegAndPng) {
  const ScratchFolder scratch;
  const DemoCounts counts = write_demo_data(
      {.output_path = scratch / "demo", .images = 31, .classes = 3, .size = 16, .random_seed = 1});
  EXPECT_EQ(counts.train + counts.valid, 31);
  const Dataset train = read_labeled_dataset(scratch / "demo/train", "Training dataset");
  const Dataset valid = read_labeled_dataset(scratch / "demo/val", "Validation dataset");
  EXPECT_EQ(static_cast<int>(train.samples.size()), counts.train);
  EXPECT_EQ(static_cast<int>(valid.samples.size()), counts.valid);
  EXPECT_EQ(train.classes, (std::vector<std::string>{"circle", "square", "triangle"}));
  EXPECT_EQ(train.classes, valid.classes);
  EXPECT_TRUE(bytes_of(scratch / "demo/train/circle/0000.jpg").starts_with("\xff\xd8\xff"));
  EXPECT_TRUE(bytes_of(scratch / "demo/train/circle/0001.png").starts_with("\x89PNG"));
}

TEST(DemoWriter, EveryClassHasTrainingAndValidationImages) {
  const ScratchFolder scratch;
  write_demo_data(
      {.output_path = scratch / "demo", .images = 1, .classes = 10, .size = 8, .random_seed = 1});
  EXPECT_EQ(read_dataset(scratch / "demo/train", "x").classes.size(), 10U);
  EXPECT_EQ(read_dataset(scratch / "demo/val", "x").classes.size(), 10U);
}

TEST(DemoWriter, AFolderThatIsNotEmptyIsRefused) {
  const ScratchFolder scratch;
  scratch.put("notes.txt", "keep");
  const Error error = error_of([&] { write_demo_data({.output_path = scratch.path()}); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedToWriteOutputs);
  EXPECT_NE(error.message().find("'notes.txt'"), std::string::npos);
}

}  // namespace
}  // namespace kiln
