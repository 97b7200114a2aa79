#include "run/inputs/sources.h"

#include <gtest/gtest.h>

#include <functional>

namespace kiln {
namespace {

Dataset set_of(std::vector<ImageSize> sizes) {
  Dataset set;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    set.samples.push_back({.file_name = std::to_string(i) + ".png",
                           .label = 0,
                           .id = static_cast<int>(i),
                           .size = sizes[i]});
  return set;
}

Sources sources_of(const std::vector<ImageSize>& sizes) {
  Sources sources;
  sources.train = set_of(sizes);
  sources.valid = set_of(sizes);
  sources.untrained.spec.model_name = "resnet18";
  return sources;
}

ErrorCode code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kUserError;
}

TEST(ChoosePixels, TakesTheSizeThatAllImagesHave) {
  Sources sources = sources_of({{48, 40}, {48, 40}});
  const PixelPlan pixels = choose_pixels({}, sources);
  EXPECT_EQ(pixels.train.output, (ImageSize{48, 40}));
  EXPECT_EQ(pixels.train.short_side, 0);
  EXPECT_EQ(pixels.smallest_batch, 1);
}

TEST(ChoosePixels, KeepsALargeSizeOnlyOfAnImageDirectory) {
  for (const bool is_image_directory : {false, true})
    for (const ImageSize size : {ImageSize{256, 200}, ImageSize{257, 200}, ImageSize{64, 480}}) {
      Sources sources = sources_of({size, size});
      sources.train.is_image_directory = is_image_directory;
      sources.valid.is_image_directory = !is_image_directory;  // the training set decides
      const PixelPlan pixels = choose_pixels({}, sources);
      const bool keeps = is_image_directory || size.height == 256;
      EXPECT_EQ(pixels.train.output, keeps ? size : (ImageSize{224, 224}));
      EXPECT_EQ(pixels.train.short_side, keeps ? 0 : 256);
    }
  Sources large = sources_of({{1512, 2016}});
  EXPECT_EQ(choose_pixels({}, large).size_reason, "all images have 2016x1512, larger than 256");
}

TEST(ChoosePixels, ResizesImagesOfSeveralSizes) {
  Sources sources = sources_of({{48, 40}, {64, 64}});
  const PixelPlan pixels = choose_pixels({}, sources);
  EXPECT_EQ(pixels.train.output, (ImageSize{224, 224}));
  EXPECT_EQ(pixels.train.short_side, 256);
}

TEST(ChoosePixels, ResizesToTheSizeOfTheNetwork) {
  Sources sources = sources_of({{48, 40}, {640, 640}});
  sources.untrained.spec.model_name = "efficientnet_b2";
  const PixelPlan pixels = choose_pixels({}, sources);
  EXPECT_EQ(pixels.train.output, (ImageSize{288, 288}));
  EXPECT_EQ(pixels.train.short_side, 329);
}

TEST(ChoosePixels, TakesAHeightAndAWidth) {
  DataConfig config;
  config.image_size = {64, 48};
  Sources sources = sources_of({{640, 480}, {640, 480}});  // nothing is cut away
  for (const char* name : {"resnet18", "vit_s_16"}) {
    sources.untrained.spec.model_name = name;
    const PixelPlan pixels = choose_pixels(config, sources);
    EXPECT_EQ(pixels.train.output, (ImageSize{64, 48}));
    EXPECT_EQ(pixels.train.fit, Fit::kCrop);
    EXPECT_EQ(pixels.train.short_side, 0) << "the least size that covers it";
    EXPECT_EQ(pixels.valid.output, (ImageSize{64, 48}));
    EXPECT_EQ(pixels.given_side, 48);
  }
  Sources wide = sources_of({{480, 640}});
  EXPECT_EQ(choose_pixels(config, wide).train.fit, Fit::kPad);
  config.image_size = {64, 50};
  EXPECT_EQ(code_of([&] { choose_pixels(config, sources); }), ErrorCode::kInvalidDataset);
}

TEST(ChoosePixels, KeepsTheSizeOfACheckpoint) {
  const AutomaticSize stored{{48, 40}, true, ""}, usual{{224, 224}, false, ""};
  Sources same = sources_of({{48, 40}}), mixed = sources_of({{48, 40}, {64, 64}});
  EXPECT_EQ(choose_pixels({}, same, stored).size_reason, "all images have this size");
  EXPECT_TRUE(same.notes.empty());

  const PixelPlan pixels = choose_pixels({}, mixed, stored);
  EXPECT_EQ(pixels.train.output, (ImageSize{48, 40}));
  EXPECT_EQ(pixels.train.short_side, 0);
  EXPECT_EQ(pixels.valid.output, (ImageSize{48, 40}));
  EXPECT_EQ(pixels.size_reason, "as before");
  EXPECT_EQ(pixels.by_images->size, (ImageSize{48, 40})) << "for the next checkpoint";
  ASSERT_EQ(mixed.notes.size(), 1U);
  EXPECT_NE(mixed.notes[0].find("40 x 48, though its images would now lead to 224 x 224"),
            std::string::npos)
      << mixed.notes[0];

  DataConfig larger;
  larger.eval_crop.is_larger = true;
  EXPECT_EQ(choose_pixels(larger, same, usual).valid.output, (ImageSize{288, 288}));
  EXPECT_EQ(same.notes.size(), 1U);
  const AutomaticSize as_stored{{224, 224}, true, ""};
  EXPECT_EQ(choose_pixels({}, mixed, as_stored).train.short_side, 0);
  EXPECT_EQ(mixed.notes.size(), 1U) << "the size is the same";
}

TEST(ChoosePixels, KeepsTheSizeOfACheckpointBeforeATransformation) {
  Problems problems;
  Sources sources = sources_of({{48, 40}, {64, 64}});
  sources.transform =
      TransformChain::parse(R"([["RandomHorizontalFlip",{}]])", "_transforms.json", problems);
  EXPECT_EQ(code_of([&] { choose_pixels({}, sources); }), ErrorCode::kInvalidDataset);
  const PixelPlan pixels = choose_pixels({}, sources, AutomaticSize{{48, 40}, true, ""});
  EXPECT_EQ(pixels.train.output, (ImageSize{48, 40}));
  EXPECT_EQ(pixels.valid.output, (ImageSize{48, 40}));
  ASSERT_EQ(sources.notes.size(), 1U);
  EXPECT_NE(sources.notes[0].find("several sizes"), std::string::npos) << sources.notes[0];
}

TEST(ChoosePixels, GivesValidationItsOwnSize) {
  Sources sources = sources_of({{64, 64}});
  DataConfig config;
  config.image_size = {64, 64};
  config.eval_crop.side = 96;
  config.eval_resize = 110;
  const PixelPlan pixels = choose_pixels(config, sources);
  EXPECT_EQ(pixels.valid.output, (ImageSize{96, 96}));
  EXPECT_EQ(pixels.valid.short_side, 110);
}

TEST(ChoosePixels, ALargerCropHasWholePatches) {
  Sources sources = sources_of({{64, 64}});
  DataConfig config;
  config.image_size = {140, 140};
  config.eval_crop.is_larger = true;
  EXPECT_EQ(choose_pixels(config, sources).valid.output, (ImageSize{192, 192}));
  sources.untrained.spec.model_name = "vit_s_14";
  EXPECT_EQ(choose_pixels(config, sources).valid.output, (ImageSize{168, 168}));
}

TEST(ChoosePixels, NormalizesAsPretrainedWeightsWantIt) {
  Sources sources = sources_of({{64, 64}});
  PixelPlan pixels = choose_pixels({}, sources);
  EXPECT_EQ(pixels.normalization_name, "half");
  sources.untrained.spec.pretrained = true;
  pixels = choose_pixels({}, sources);
  EXPECT_EQ(pixels.normalization_name, "imagenet");
  EXPECT_DOUBLE_EQ(pixels.normalization.mean[0], 0.485);
}

TEST(CheckBatchSize, WantsAStepToFitIntoTheTrainingSet) {
  Sources sources = sources_of(std::vector<ImageSize>(16, {32, 32}));
  OptimizationConfig config;
  config.batch_size = 8;
  EXPECT_NO_THROW(check_batch_size(config, 16, 1, 2));
  EXPECT_EQ(code_of([&] { check_batch_size(config, 16, 1, 3); }), ErrorCode::kLessThanOrEqualTo);
  config.accumulate = 3;
  EXPECT_EQ(code_of([&] { check_batch_size(config, 16, 1, 1); }), ErrorCode::kLessThanOrEqualTo);
  config.freeze = Freeze::kBackbone;
  EXPECT_NO_THROW(check_batch_size(config, 16, 1, 1));
}

TEST(CheckBatchSize, WantsTwoImagesWhereTheLastMapHasOnePixel) {
  Sources sources = sources_of(std::vector<ImageSize>(16, {32, 32}));
  const PixelPlan pixels = choose_pixels({}, sources);
  EXPECT_EQ(pixels.smallest_batch, 2);
  OptimizationConfig config;
  config.batch_size = 1;
  EXPECT_EQ(code_of([&] { check_batch_size(config, 16, pixels.smallest_batch, 1); }),
            ErrorCode::kGreaterThanOrEqualTo);
}

}  // namespace
}  // namespace kiln
