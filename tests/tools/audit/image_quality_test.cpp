#include "tools/audit/image_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/random.h"
#include "predict/pictures.h"

namespace kiln {
namespace {

Image gray(ImageSize size, const std::function<int(int y, int x)>& value) {
  Image image{size, {}};
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x)
      image.pixels.insert(image.pixels.end(), 3,
                          static_cast<std::uint8_t>(std::clamp(value(y, x), 0, 255)));
  return image;
}

// Blocks of chance brightness with some noise on them.
Image ordinary(std::uint64_t seed, ImageSize size = {64, 64}) {
  return gray(size, [&](int y, int x) {
    const auto block = static_cast<std::uint64_t>(y / 7 * 100 + x / 5);
    const auto pixel = static_cast<std::uint64_t>(y * 1000 + x);
    return static_cast<int>(20 + RandomSequence{seed, block}.below(200) +
                            RandomSequence{seed, pixel, 1}.below(20));
  });
}

Image changed(Image image, const std::function<int(int value)>& change) {
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(change(value));
  return image;
}

Image smoothed(Image image, int times) {
  for (; times > 0; --times) {
    const Image before = image;
    const auto at = [&](int y, int x) {
      y = std::clamp(y, 0, before.size.height - 1);
      x = std::clamp(x, 0, before.size.width - 1);
      return static_cast<int>(
          before.pixels[static_cast<std::size_t>(3 * (y * before.size.width + x))]);
    };
    image = gray(before.size, [&](int y, int x) {
      int sum = 4;
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) sum += at(y + dy, x + dx);
      return sum / 9;
    });
  }
  return image;
}

class ImageQuality : public testing::Test {
 protected:
  void SetUp() override {
    if (pictures_module() == nullptr) GTEST_SKIP() << "no module in builds with sanitizers";
    std::vector<ImageMeasures> images;
    for (std::uint64_t seed = 0; seed < 9; ++seed) {
      const Image image = ordinary(seed);
      images.push_back(measure_image(image, image.size));
    }
    usual_ = usual_image(images);
    for (const ImageMeasures& image : images) EXPECT_TRUE(flaws_of(image, usual_).empty());
  }
  std::vector<Flaw> flaws(const Image& image) const {
    std::vector<Flaw> found;
    for (const FoundFlaw& flaw : flaws_of(measure_image(image, image.size), usual_)) {
      EXPECT_GE(flaw.extent, 1);
      EXPECT_FALSE(flaw.reason.empty());
      found.push_back(flaw.flaw);
    }
    return found;
  }
  UsualImage usual_;
};

TEST_F(ImageQuality, EachFlawIsFound) {
  EXPECT_EQ(flaws(changed(ordinary(3), [](int value) { return value / 5; })),
            std::vector{Flaw::kDark});
  EXPECT_EQ(flaws(changed(ordinary(3), [](int value) { return 225 + value / 9; })),
            std::vector{Flaw::kBright});
  EXPECT_EQ(flaws(smoothed(ordinary(3), 8)), std::vector{Flaw::kBlurred});
  EXPECT_EQ(flaws(gray({64, 64}, [](int y, int x) { return 120 + (x + y) % 3; })),
            std::vector{Flaw::kEmpty});
  EXPECT_EQ(flaws(ordinary(3, {12, 12})), std::vector{Flaw::kSmall});
  EXPECT_EQ(flaws(ordinary(3, {40, 160})), std::vector{Flaw::kOddShape});
}

TEST_F(ImageQuality, WhatIsUsualIsNoFlaw) {
  const Image dark = changed(ordinary(3), [](int value) { return value / 5; });
  const std::vector<ImageMeasures> images(5, measure_image(dark, dark.size));
  EXPECT_TRUE(flaws_of(images[0], usual_image(images)).empty());
}

TEST_F(ImageQuality, ImagesThatAreNotMeasuredHaveNone) {
  EXPECT_TRUE(flaws_of({}, usual_).empty());
  EXPECT_EQ(usual_image({}).short_side, 0);
}

TEST_F(ImageQuality, LargeImagesAreMeasuredSmall) {
  const Image large = ordinary(1, {700, 500});
  EXPECT_TRUE(measure_image(large, large.size).is_known());
  EXPECT_EQ(measure_image(large, large.size).size, (ImageSize{700, 500}));
  const Image thin = gray({2000, 1}, [](int y, int) { return y % 200; });
  EXPECT_EQ(measure_image(thin, thin.size).sharpness, 1);
}

}  // namespace
}  // namespace kiln
