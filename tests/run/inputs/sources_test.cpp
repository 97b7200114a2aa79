#include "run/inputs/training_inputs.h"

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

TrainingInputs inputs_of(const std::vector<ImageSize>& sizes) {
  TrainingInputs inputs;
  inputs.train = set_of(sizes);
  inputs.valid = set_of(sizes);
  inputs.untrained.spec.model_name = "resnet18";
  return inputs;
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
  TrainingInputs inputs = inputs_of({{48, 40}, {48, 40}});
  choose_transforms({}, inputs);
  EXPECT_EQ(inputs.pixels.output, (ImageSize{48, 40}));
  EXPECT_EQ(inputs.pixels.short_side, 0);
  EXPECT_EQ(inputs.smallest_batch, 1);
}

TEST(ChoosePixels, KeepsALargeSizeOnlyOfAnImageDirectory) {
  for (const bool is_image_directory : {false, true})
    for (const ImageSize size : {ImageSize{256, 200}, ImageSize{257, 200}, ImageSize{64, 480}}) {
      TrainingInputs inputs = inputs_of({size, size});
      inputs.train.is_image_directory = is_image_directory;
      inputs.valid.is_image_directory = !is_image_directory;  // the training set decides
      choose_transforms({}, inputs);
      const bool keeps = is_image_directory || size.height == 256;
      EXPECT_EQ(inputs.pixels.output, keeps ? size : (ImageSize{224, 224}));
      EXPECT_EQ(inputs.pixels.short_side, keeps ? 0 : 256);
    }
  TrainingInputs large = inputs_of({{1512, 2016}});
  choose_transforms({}, large);
  EXPECT_EQ(large.size_reason, "all images have 2016x1512, larger than 256");
}

TEST(ChoosePixels, ResizesImagesOfSeveralSizes) {
  TrainingInputs inputs = inputs_of({{48, 40}, {64, 64}});
  choose_transforms({}, inputs);
  EXPECT_EQ(inputs.pixels.output, (ImageSize{224, 224}));
  EXPECT_EQ(inputs.pixels.short_side, 256);
}

TEST(ChoosePixels, GivesValidationItsOwnSize) {
  TrainingInputs inputs = inputs_of({{64, 64}});
  DataConfig config;
  config.image_size.last = 64;
  config.eval_crop.side = 96;
  config.eval_resize = 110;
  choose_transforms(config, inputs);
  EXPECT_EQ(inputs.valid_pixels.output, (ImageSize{96, 96}));
  EXPECT_EQ(inputs.valid_pixels.short_side, 110);
}

TEST(ChoosePixels, NormalizesAsPretrainedWeightsWantIt) {
  TrainingInputs inputs = inputs_of({{64, 64}});
  choose_transforms({}, inputs);
  EXPECT_EQ(inputs.normalization_name, "half");
  inputs.untrained.spec.pretrained = true;
  choose_transforms({}, inputs);
  EXPECT_EQ(inputs.normalization_name, "imagenet");
  EXPECT_DOUBLE_EQ(inputs.normalization.mean[0], 0.485);
}

TEST(CheckBatchSize, WantsAStepToFitIntoTheTrainingSet) {
  TrainingInputs inputs = inputs_of(std::vector<ImageSize>(16, {32, 32}));
  OptimizationConfig config;
  config.batch_size = 8;
  EXPECT_NO_THROW(check_batch_size(config, inputs, 2));
  EXPECT_EQ(code_of([&] { check_batch_size(config, inputs, 3); }), ErrorCode::kLessThanOrEqualTo);
  config.accumulate = 3;
  EXPECT_EQ(code_of([&] { check_batch_size(config, inputs, 1); }), ErrorCode::kLessThanOrEqualTo);
}

TEST(CheckBatchSize, WantsTwoImagesWhereTheLastMapHasOnePixel) {
  TrainingInputs inputs = inputs_of(std::vector<ImageSize>(16, {32, 32}));
  choose_transforms({}, inputs);
  EXPECT_EQ(inputs.smallest_batch, 2);
  OptimizationConfig config;
  config.batch_size = 1;
  EXPECT_EQ(code_of([&] { check_batch_size(config, inputs, 1); }),
            ErrorCode::kGreaterThanOrEqualTo);
}

}  // namespace
}  // namespace kiln
