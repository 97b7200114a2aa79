// `kiln transform init` and `kiln transform apply`.
#include <gtest/gtest.h>

#include "parse.h"

namespace kiln {
namespace {

TransformInitConfig init(const Words& more) {
  Words words = {"transform", "init", "--output-path", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return parse_as<TransformInitConfig>(words);
}

std::string init_fault(const Words& more, ErrorCode* code = nullptr) {
  Words words = {"transform", "init", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return fault(words, code);
}

Words apply(const Words& more = {}) {
  Words words = {
      "transform",     "apply", "--input_image_transform_path=t", "--input-image-dir-path", "i",
      "--output-path", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(TransformInit, WritesTheOperationsInTheDesignersOrder) {
  EXPECT_EQ(init({}).operations, "[]");
  EXPECT_EQ(init({"--random-horizontal-flip", "True", "--center_crop=true", "--crop-size", "32",
                  "--resize", "--size", "40", "--pad", "False", "--padding", "3"})
                .operations,
            R"([["Resize", 40], ["CenterCrop", 32], ["RandomHorizontalFlip", {}]])");
  EXPECT_EQ(init({"--random-perspective", "--random-affine", "--random-rotation",
                  "--random-vertical-flip", "--random-crop", "--random-resized-crop",
                  "--color-jitter", "--pad"})
                .operations,
            R"([["Pad", 0], ["ColorJitter", {}], ["RandomResizedCrop", 256], ["RandomCrop", 224], )"
            R"(["RandomVerticalFlip", {}], ["RandomRotation", 0], ["RandomAffine", 0], )"
            R"(["RandomPerspective", {}]])");
}

TEST(TransformInit, IgnoresTwoSwitches) {
  const TransformInitConfig config = init({"--grayscale", "True", "--random-grayscale", "True"});
  EXPECT_EQ(config.operations, "[]");
  EXPECT_EQ(config.ignored, (std::vector<std::string>{"grayscale", "random-grayscale"}));
  EXPECT_TRUE(init({"--grayscale", "False"}).ignored.empty());
}

TEST(TransformInit, TakesAHeightAndAWidth) {
  for (const char* text : {"[224,160]", "[ 224 , 160]"})
    EXPECT_EQ(init({"--resize", "--size", text}).operations,
              R"([["Resize", {"size": [224, 160]}]])");
}

TEST(TransformInit, RefusesSizesThatAreNone) {
  ErrorCode code{};
  for (const char* text : {"0", "-3", "[0,4]", "[4,-3]"}) {
    EXPECT_NE(init_fault({std::string("--size=") + text}, &code), "no fault") << text;
    EXPECT_EQ(code, ErrorCode::kGreaterThan) << text;
  }
  for (const char* text : {"big", "[", "[4]", "[4,]", "[4,5", "[4,5,6]", "[4 5]", "4,5", "2.0"}) {
    EXPECT_NE(init_fault({std::string("--crop-size=") + text}, &code).find("--crop-size is '"),
              std::string::npos)
        << text;
    EXPECT_EQ(code, ErrorCode::kParameterParsing) << text;
  }
  EXPECT_NE(init_fault({"--padding", "-1"}, &code), "no fault");
  EXPECT_EQ(code, ErrorCode::kGreaterThanOrEqualTo);
  EXPECT_NE(init_fault({"--resize", "maybe"}, &code), "no fault");
  EXPECT_EQ(code, ErrorCode::kParameterParsing);
  EXPECT_NE(init_fault({"--random-erasing", "True"}).find("is not an option"), std::string::npos);
}

TEST(TransformApply, TakesTheDesignersWords) {
  const auto training = parse_as<TransformApplyConfig>(apply({"--mode", "For training"}));
  EXPECT_FALSE(training.for_inference);
  EXPECT_EQ(training.random_seed, 0);
  EXPECT_EQ(training.transform_path, "t");
  EXPECT_EQ(training.image_path, "i");
  EXPECT_TRUE(parse_as<TransformApplyConfig>(apply({"--mode=for inference"})).for_inference);
}

TEST(TransformApply, RefusesOtherModesAndItsInputsAsOutput) {
  ErrorCode code{};
  EXPECT_NE(fault(apply({"--mode", "training"}), &code).find("For training or For inference"),
            std::string::npos);
  EXPECT_EQ(code, ErrorCode::kParameterParsing);
  EXPECT_NE(fault(apply()).find("--mode"), std::string::npos);
  EXPECT_NE(fault({"transform", "apply", "--mode", "For training", "--input-image-transform-path",
                   "t", "--input-image-dir-path", "i", "--output-path", "i/o"})
                .find("is inside --data-path"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
