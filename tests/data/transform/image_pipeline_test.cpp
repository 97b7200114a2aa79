#include "data/transform/image_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/make_image.h"
#include "data/transform/augment.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct Written {
  Image image;
  std::string damage;
};

Written write(const std::string& bytes, const TransformSpec& plan, const DrawKey& key = {}) {
  constexpr std::size_t kBehind = 16;
  const ImageSize size = plan.output;
  Written written{{size, std::vector<std::uint8_t>(3 * size.height * size.width + kBehind, 77)},
                  {}};
  std::vector<std::uint8_t>& pixels = written.image.pixels;
  written.damage = ImagePipeline().write(bytes, plan, key, pixels.data());
  EXPECT_EQ(std::count(pixels.end() - kBehind, pixels.end(), 77), kBehind)
      << "written beyond the place";
  pixels.resize(pixels.size() - kBehind);
  return written;
}

std::string fault_of(const std::string& bytes, const TransformSpec& plan) {
  try {
    write(bytes, plan);
  } catch (const ImageFault& fault) {
    return fault.what();
  }
  return {};
}

Image mirrored(Image image) {
  for (int y = 0; y < image.size.height; ++y) {
    std::uint8_t* row = image.pixels.data() + y * image.size.width * 3;
    for (int x = 0, last = image.size.width - 1; x < last - x; ++x)
      std::swap_ranges(row + x * 3, row + x * 3 + 3, row + (last - x) * 3);
  }
  return image;
}

TransformSpec center_plan(int size) {
  return {.output = {size, size}, .short_side = usual_short_side(size)};
}

TEST(ImagePipeline, CropsTheCenterOfTheResizedImage) {
  const Image result = write(test::encode_png(test::gradient(300, 500)), center_plan(224)).image;
  // Resized by 256 / 300; the crop begins at column 101 and row 16.
  const double scale = 300.0 / 256.0;
  for (const int y : {0, 111, 223}) {
    for (const int x : {0, 111, 223}) {
      const double source_x = (x + 101 + 0.5) * scale, source_y = (y + 16 + 0.5) * scale;
      const std::uint8_t* pixel = result.pixels.data() + (y * 224 + x) * 3;
      EXPECT_NEAR(pixel[0], 40 + 160 * source_x / 500, 1.5);
      EXPECT_NEAR(pixel[1], 40 + 160 * source_y / 300, 1.5);
    }
  }
}

TEST(ImagePipeline, EnlargesSmallImagesAndRefusesLinesOfPixels) {
  const Image result =
      write(test::encode_png(test::plain(5, 3, 10, 20, 30)), center_plan(32)).image;
  EXPECT_EQ(test::largest_difference(result, test::plain(32, 32, 10, 20, 30)), 0);
  EXPECT_EQ(fault_of(test::encode_png(test::plain(1, 20000, 1, 2, 3)), center_plan(224)),
            "too elongated to resize: 20000 x 1");
}

// The fixed-point result must reach both ends of the range at any scale.
TEST(ImagePipeline, KeepsPureBlackAndWhite) {
  for (const int side : {17, 31, 64, 300, 1000}) {
    for (const std::uint8_t value : {0, 255}) {
      const std::string bytes = test::encode_png(test::plain(side, side + 3, value, value, value));
      const Image expected = test::plain(40, 40, value, value, value);
      EXPECT_EQ(test::largest_difference(write(bytes, center_plan(40)).image, expected), 0) << side;
    }
  }
}

TEST(ImagePipeline, KeepsAnImageOfTheOutputSize) {
  const Image image = test::noise(40, 56);
  const std::string bytes = test::encode_png(image);
  EXPECT_EQ(test::largest_difference(write(bytes, {.output = {40, 56}}).image, image), 0);
  TransformSpec plan = {.output = {40, 56}, .short_side = 46};
  EXPECT_EQ(test::largest_difference(write(bytes, plan).image, image), 0);
  plan.keep_exact = false;
  EXPECT_GT(test::largest_difference(write(bytes, plan).image, image), 0);
  EXPECT_EQ(fault_of(bytes, {.output = {50, 50}, .short_side = 46}),
            "resized to 64 x 46 it is smaller than 50 x 50");
}

// Without a short side, an image of another size is resized until it covers the output.
TEST(ImagePipeline, CoversTheOutputWithImagesOfOtherSizes) {
  const auto left_half = [](int height, int width) {
    Image image = test::plain(height, width, 200, 0, 0);
    for (int y = 0; y < height; ++y)
      for (int x = width / 2; x < width; ++x) image.pixels[(y * width + x) * 3] = 0;
    return test::encode_png(image);
  };
  for (const ImageSize from : {ImageSize{80, 100}, {300, 100}, {24, 30}, {40, 4000}, {7, 3}}) {
    const Image image = write(left_half(from.height, from.width), {.output = {40, 56}}).image;
    const std::uint8_t* row = image.pixels.data() + 20 * 56 * 3;
    EXPECT_GT(row[3], 190) << from.height;
    EXPECT_LT(row[54 * 3], 10) << from.height;
  }
  const Image cut = test::noise(40, 60);
  const Image middle = write(test::encode_png(cut), {.output = {40, 56}}).image;
  EXPECT_TRUE(std::equal(middle.pixels.begin(), middle.pixels.begin() + 56 * 3,
                         cut.pixels.begin() + 2 * 3));
  EXPECT_EQ(fault_of(test::encode_png(test::plain(1, 20000, 1, 2, 3)), {.output = {224, 224}}),
            "too elongated to resize: 20000 x 1");
}

// The columns of an image whose red grows from left to right, as it lies in the output.
TEST(ImagePipeline, PadsAndStretchesTheWholeImage) {
  const std::string wide = test::encode_png(test::gradient(25, 100));
  TransformSpec plan = {.output = {32, 32}, .fit = Fit::kPad, .fill = {1, 2, 3}};
  const Image padded = write(wide, plan).image;
  for (int y = 0; y < 32; ++y) {
    const std::uint8_t* row = padded.pixels.data() + y * 32 * 3;
    const bool has_picture = y >= 12 && y < 20;  // 8 rows of 32, in the middle
    EXPECT_EQ(row[2] == 3 && row[0] == 1, !has_picture) << y;
    if (!has_picture) continue;
    EXPECT_LT(row[0], 50);
    EXPECT_GT(row[31 * 3], 190);
  }
  plan.fit = Fit::kStretch;
  const Image stretched = write(wide, plan).image;
  for (int y = 0; y < 32; ++y) {
    EXPECT_LT(stretched.pixels[y * 32 * 3], 50) << y;
    EXPECT_GT(stretched.pixels[(y * 32 + 31) * 3], 190) << y;
  }
}

TEST(ImagePipeline, PaddingSurroundsAnyShape) {
  for (const ImageSize from :
       {ImageSize{900, 1}, {1, 900}, {25, 100}, {99, 70}, {5, 3}, {33, 33}}) {
    for (const ImageSize out : {ImageSize{32, 32}, {24, 40}, {33, 17}}) {
      const TransformSpec plan = {.output = out, .fit = Fit::kPad, .fill = {9, 9, 9}};
      const std::string bytes =
          test::encode_png(test::plain(from.height, from.width, 200, 100, 50));
      const ImageSize inner = inner_size(from, out);
      EXPECT_TRUE(inner.height == out.height || inner.width == out.width);
      ImagePipeline pipeline;
      Image result{out, std::vector<std::uint8_t>(out.num_pixels() * 3)};
      pipeline.write(bytes, plan, {}, result.pixels.data());
      EXPECT_EQ(pipeline.picture().size, inner);
      const Image picture = cut_out(result, pipeline.picture());
      EXPECT_EQ(
          test::largest_difference(picture, test::plain(inner.height, inner.width, 200, 100, 50)),
          0);
      EXPECT_EQ(std::ranges::count(result.pixels, 9),
                std::ssize(result.pixels) - std::ssize(picture.pixels));
    }
  }
}

// Cached pixels are mirrored after padding, others before: with an odd rest the bars differ.
TEST(ImagePipeline, PaddingIsMirroredWithTheImage) {
  const std::string bytes = test::encode_png(test::noise(40, 21));
  TransformSpec plan = {.output = {40, 40}, .fit = Fit::kPad};
  const Image straight = write(bytes, plan).image;
  plan.augment = Augment::kFlip;
  int flipped = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const Image result = write(bytes, plan, {1, 1, i}).image;
    Image kept = straight;
    ImagePipeline().augment(plan, {1, 1, i}, kept.pixels.data());
    EXPECT_EQ(result.pixels, kept.pixels);
    flipped += result.pixels == mirrored(straight).pixels ? 1 : 0;
  }
  EXPECT_NEAR(flipped, 20, 12);
}

TEST(ImagePipeline, PaddingLeavesRandomCropsAsTheyAre) {
  const std::string bytes = test::encode_jpeg(test::noise(60, 200));
  TransformSpec plan = center_plan(24);
  plan.augment = Augment::kStandard;
  for (std::uint64_t i = 0; i < 20; ++i) {
    plan.fit = Fit::kCrop;
    const Image cropped = write(bytes, plan, {1, 1, i}).image;
    for (const Fit fit : {Fit::kPad, Fit::kStretch}) {
      plan.fit = fit;
      EXPECT_EQ(write(bytes, plan, {1, 1, i}).image.pixels, cropped.pixels);
    }
  }
}

TEST(ImagePipeline, CropsWithoutResizing) {
  const Image image = test::noise(37, 60);
  const Image cut = write(test::encode_png(image), center_plan(32)).image;
  for (int y = 0; y < 32; ++y) {
    const auto row = image.pixels.begin() + ((y + 2) * 60 + 14) * 3;
    EXPECT_TRUE(std::equal(row, row + 32 * 3, cut.pixels.begin() + y * 32 * 3)) << y;
  }
}

TEST(ImagePipeline, FlipMirrorsHalfOfTheImagesDifferentOnesEachEpoch) {
  const Image image = test::noise(30, 31);
  for (const std::string& bytes : {test::encode_png(image), test::encode_jpeg(image)}) {
    for (const ImageSize size : {image.size, ImageSize{24, 24}, ImageSize{28, 29}}) {
      TransformSpec plan = {.output = size, .short_side = 30};
      const Image straight = write(bytes, plan).image;
      plan.augment = Augment::kFlip;
      int flipped = 0, changed = 0;
      bool before = false;
      for (std::uint64_t i = 0; i < 400; ++i) {
        const Image result = write(bytes, plan, {1, i % 2, i / 2}).image;
        const bool is_flipped = test::largest_difference(result, straight) > 0;
        const Image expected = is_flipped ? mirrored(straight) : straight;
        EXPECT_EQ(test::largest_difference(result, expected), 0);
        flipped += is_flipped ? 1 : 0;
        if (i % 2 == 1) changed += is_flipped != before ? 1 : 0;
        before = is_flipped;
      }
      EXPECT_NEAR(flipped, 200, 40);
      EXPECT_NEAR(changed, 100, 30);
    }
  }
}

TEST(ImagePipeline, StandardResizesARandomCropToTheOutputSize) {
  const Image image = test::gradient(90, 120);
  const TransformSpec plan = {.output = {32, 32}, .augment = Augment::kStandard};
  int least_red = 255, most_red = 0, flipped = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Image part = write(test::encode_jpeg(image), plan, {3, 1, i}).image;
    const int left = part.pixels[16 * 32 * 3], right = part.pixels[(16 * 32 + 31) * 3];
    flipped += left > right ? 1 : 0;
    least_red = std::min({least_red, left, right});
    most_red = std::max({most_red, left, right});
    // The gradient increases downwards in every crop.
    EXPECT_LT(part.pixels[1], part.pixels[31 * 32 * 3 + 1] + 1);
  }
  EXPECT_NEAR(flipped, 100, 30);
  EXPECT_LT(least_red, 50);
  EXPECT_GT(most_red, 190);
}

TEST(ImagePipeline, DependsOnTheKeyAndNotOnEarlierImages) {
  const std::string bytes = test::encode_jpeg(test::noise(80, 60));
  const std::string other = test::encode_jpeg(test::noise(33, 250));
  for (const Augment augment : {Augment::kFlip, Augment::kStandard, Augment::kStrong}) {
    TransformSpec plan = center_plan(24);
    plan.augment = augment;
    ImagePipeline used;
    std::vector<std::uint8_t> pixels(24 * 24 * 3);
    std::set<std::string> different;
    for (std::uint64_t i = 0; i < 60; ++i) {
      used.write(other, plan, {9, 9, i}, pixels.data());
      used.write(bytes, plan, {1, 2, i}, pixels.data());
      EXPECT_EQ(pixels, write(bytes, plan, {1, 2, i}).image.pixels) << i;
      different.emplace(pixels.begin(), pixels.end());
    }
    EXPECT_EQ(different.size(), augment == Augment::kFlip ? 2U : 60U);
  }
}

// Single-color blocks, which a lower resolution would mix.
Image mosaic(int height, int width, int block) {
  const Image colors = test::noise(height / block + 1, width / block + 1);
  Image image{{height, width}, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto color = colors.pixels.begin() + ((y / block) * colors.size.width + x / block) * 3;
      image.pixels.insert(image.pixels.end(), color, color + 3);
    }
  }
  return image;
}

TEST(ImagePipeline, WithoutRandomCropsALargeJpegIsResizedFromAllItsPixels) {
  const std::string jpeg = test::encode_jpeg(mosaic(2000, 3000, 9));
  const std::string pixels = test::encode_ppm(decode_image(jpeg, Exif::kIgnore).image);
  for (const int size : {32, 100, 224}) {
    for (const Fit fit : {Fit::kCrop, Fit::kPad, Fit::kStretch}) {
      TransformSpec plan = center_plan(size);
      plan.fit = fit;
      plan.augment = fit == Fit::kCrop ? Augment::kFlip : Augment::kNone;
      EXPECT_EQ(test::largest_difference(write(jpeg, plan).image, write(pixels, plan).image), 0)
          << size;
    }
  }
}

double peak_signal_to_noise(const Image& a, const Image& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    const double difference = static_cast<double>(a.pixels[i]) - b.pixels[i];
    sum += difference * difference;
  }
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.pixels.size()) / (sum + 1e-9));
}

// For random crops JPEGs are decoded at a lower resolution if that is not visible; other formats
// never are.
TEST(ImagePipeline, StrongReductionIsAsGoodAsFromAFullDecode) {
  const char* shared = std::getenv("KILN_SHARED");
  const fs::path photos =
      (shared != nullptr ? fs::path(shared) : fs::path(KILN_SOURCE_DIR) / "../shared") /
      "data/photos";
  if (!fs::is_directory(photos)) GTEST_SKIP() << "no photographs in " << photos;
  double worst = 99;
  int compared = 0;
  for (const fs::path& path : fs::recursive_directory_iterator(photos)) {
    if (!fs::is_regular_file(path) || ++compared % 4 != 0) continue;
    const std::string bytes = read_file(path);
    const std::string pixels = test::encode_ppm(decode_image(bytes, Exif::kIgnore).image);
    for (const int size : {32, 40, 52}) {
      TransformSpec plan = center_plan(size);
      plan.augment = Augment::kStandard;
      const DrawKey key = {1, 2, static_cast<std::uint64_t>(compared)};
      worst = std::min(worst, peak_signal_to_noise(write(bytes, plan, key).image,
                                                   write(pixels, plan, key).image));
    }
  }
  EXPECT_GT(compared, 0);
  std::printf("the worst has %.1f dB\n", worst);
  EXPECT_GE(worst, 40.0);
  EXPECT_LT(worst, 60.0) << "nothing was decoded at a lower resolution";
}

TEST(ImagePipeline, ReportsTheDamageOfUsedImages) {
  const std::string jpeg = test::encode_jpeg(test::gradient(64, 64));
  const std::string cut = jpeg.substr(0, jpeg.size() * 9 / 10);
  EXPECT_TRUE(write(cut, center_plan(32)).damage.starts_with("JPEG data ends early"));
  EXPECT_EQ(write(jpeg, center_plan(32)).damage, "");
}

TransformSpec plan_of(Augment augment) {
  return {.output = {24, 24}, .short_side = 27, .augment = augment};
}

// The draws of mirror, crop, operation and erasing are one sequence, whose key is (seed, epoch,
// image): so it has been in all versions.
TEST(ImagePipeline, StrongGoesOnWithTheDrawsOfStandard) {
  const std::string bytes = test::encode_png(test::noise(50, 40));
  std::vector<std::uint8_t> copy;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const DrawKey key{5, 2, i};
    Image expected = write(bytes, plan_of(Augment::kStandard), key).image;
    RandomSequence random{5, 2, i};
    random.below(2);
    draw_crop({50, 40}, random);
    apply_operation(draw_operation(random), expected.pixels.data(), expected.size, copy);
    const TransformSpec plan = plan_of(parse_augment("erase,trivial,flip,crop"));
    random_erase(expected.pixels.data(), expected.size, plan.fill.data(), random);
    EXPECT_EQ(write(bytes, plan, key).image.pixels, expected.pixels) << i;
  }
}

TEST(ImagePipeline, AnOperationMoreLeavesTheDrawsOfTheOthers) {
  const std::string bytes = test::encode_png(test::noise(50, 40));
  int flipped = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const DrawKey key{5, 2, i};
    const Image cropped = write(bytes, plan_of(parse_augment("crop")), key).image;
    const Image standard = write(bytes, plan_of(Augment::kStandard), key).image;
    EXPECT_TRUE(standard.pixels == cropped.pixels || standard.pixels == mirrored(cropped).pixels);
    Image upside_down = standard;
    flip_vertically(upside_down.pixels.data(), upside_down.size);
    const Image both = write(bytes, plan_of(parse_augment("crop,flip,vflip")), key).image;
    EXPECT_TRUE(both.pixels == standard.pixels || both.pixels == upside_down.pixels);
    flipped += both.pixels == upside_down.pixels ? 1 : 0;
  }
  EXPECT_NEAR(flipped, 30, 15);
}

TEST(ImagePipeline, EveryOperationChangesSomeImagesAndRepeatsDiffer) {
  const std::string bytes = test::encode_jpeg(test::noise(50, 40));
  const Image plain = write(bytes, plan_of(Augment::kNone)).image;
  for (const std::string_view step : kAugmentStepNames) {
    const TransformSpec plan = plan_of(parse_augment(step));
    int changed = 0, repeated = 0;
    for (std::uint64_t i = 0; i < 100; ++i) {
      const Image first = write(bytes, plan, {1, 2, i}).image;
      const Image again = write(bytes, plan, {1, 2, i, 1}).image;
      changed += first.pixels != plain.pixels ? 1 : 0;
      repeated += first.pixels == again.pixels ? 1 : 0;
    }
    EXPECT_GT(changed, 10) << step;
    EXPECT_LT(repeated, 80) << step;
  }
}

TEST(ImagePipeline, AugmentsKeptPixelsAsItWritesThem) {
  const std::string bytes = test::encode_jpeg(test::noise(50, 40));
  for (const ImageSize size : {ImageSize{24, 24}, ImageSize{20, 26}}) {
    TransformSpec plan = plan_of(parse_augment("flip,vflip,rotate90,color,trivial,erase"));
    plan.output = size;
    TransformSpec kept = plan;
    kept.augment = Augment::kNone;
    for (std::uint64_t i = 0; i < 30; ++i) {
      const DrawKey key{7, 1, i, i % 2};
      Image image = write(bytes, kept, key).image;
      ImagePipeline().augment(plan, key, image.pixels.data());
      EXPECT_EQ(image.pixels, write(bytes, plan, key).image.pixels) << i;
    }
  }
}

}  // namespace
}  // namespace kiln
