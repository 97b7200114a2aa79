#include "data/transform/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

namespace kiln {
namespace {

TEST(DrawCrop, StaysInsideTheImageAndCoversItsRanges) {
  const ImageSize whole{375, 500};
  double least = 1, most = 0, narrowest = 9, widest = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    RandomSequence random{5, i};
    const Region crop = draw_crop(whole, random);
    ASSERT_GE(crop.top, 0);
    ASSERT_GE(crop.left, 0);
    ASSERT_LE(crop.top + crop.size.height, whole.height);
    ASSERT_LE(crop.left + crop.size.width, whole.width);
    const double area = 1.0 * crop.size.height * crop.size.width / (375 * 500);
    const double ratio = 1.0 * crop.size.width / crop.size.height;
    least = std::min(least, area);
    most = std::max(most, area);
    narrowest = std::min(narrowest, ratio);
    widest = std::max(widest, ratio);
  }
  EXPECT_NEAR(least, 0.08, 0.01);
  EXPECT_NEAR(most, 1.0, 0.02);
  EXPECT_NEAR(narrowest, 0.75, 0.02);
  EXPECT_NEAR(widest, 1.333, 0.02);
}

TEST(DrawCrop, TakesTheCenterIfNothingFits) {
  RandomSequence random{1};
  EXPECT_EQ(draw_crop({10, 1000}, random), (Region{0, 493, {10, 13}}));
  EXPECT_EQ(draw_crop({1000, 9}, random), (Region{494, 0, {12, 9}}));
  EXPECT_EQ(draw_crop({1, 1}, random), (Region{0, 0, {1, 1}}));
}

TEST(RandomErase, FillsOneRectangleAQuarterOfTheTime) {
  const ImageSize size{40, 50};
  const std::array<std::uint8_t, 3> color = {1, 2, 3};
  int erased = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    RandomSequence random{8, i};
    std::vector<std::uint8_t> pixels(40 * 50 * 3, 200);
    random_erase(pixels.data(), size, color.data(), random);
    int top = 40, bottom = -1, left = 50, right = -1, count = 0;
    for (int y = 0; y < 40; ++y) {
      for (int x = 0; x < 50; ++x) {
        const std::uint8_t* pixel = pixels.data() + (y * 50 + x) * 3;
        if (!std::equal(color.begin(), color.end(), pixel)) continue;
        ++count;
        top = std::min(top, y);
        bottom = std::max(bottom, y);
        left = std::min(left, x);
        right = std::max(right, x);
      }
    }
    if (count == 0) continue;
    ++erased;
    EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1));
    EXPECT_GT(count, 2000 * 0.01);
    EXPECT_LT(count, 2000 * 0.36);
  }
  EXPECT_NEAR(erased, 250, 50);
}

TEST(TrivialAugment, DrawsEveryOperationWithinItsRange) {
  std::map<ImageOperation, std::pair<double, double>> ranges;
  std::map<ImageOperation, int> counts;
  for (std::uint64_t i = 0; i < 14000; ++i) {
    RandomSequence random{2, i};
    const DrawnOperation drawn = draw_operation(random);
    auto& [low, high] = ranges.try_emplace(drawn.operation, 999, -999).first->second;
    low = std::min(low, drawn.magnitude);
    high = std::max(high, drawn.magnitude);
    ++counts[drawn.operation];
  }
  ASSERT_EQ(counts.size(), static_cast<std::size_t>(kNumImageOperations));
  for (const auto& [operation, count] : counts) EXPECT_NEAR(count, 1000, 150);
  const auto expect = [&](ImageOperation operation, double low, double high) {
    EXPECT_DOUBLE_EQ(ranges[operation].first, low);
    EXPECT_DOUBLE_EQ(ranges[operation].second, high);
  };
  expect(ImageOperation::kShearX, -0.99, 0.99);
  expect(ImageOperation::kTranslateY, -32, 32);
  expect(ImageOperation::kRotate, -135, 135);
  expect(ImageOperation::kSharpness, -0.99, 0.99);
  expect(ImageOperation::kPosterize, 2, 8);
  expect(ImageOperation::kSolarize, 0, 255);
  expect(ImageOperation::kEqualize, 0, 0);
}

// [1, 3] gray pixels 10, 100, 200.
std::vector<int> applied(ImageOperation operation, double magnitude) {
  std::vector<std::uint8_t> pixels = {10, 10, 10, 100, 100, 100, 200, 200, 200}, copy;
  apply_operation({operation, magnitude}, pixels.data(), {1, 3}, copy);
  return {pixels[0], pixels[3], pixels[6]};
}

TEST(TrivialAugment, AppliesEachOperation) {
  using Values = std::vector<int>;
  EXPECT_EQ(applied(ImageOperation::kIdentity, 0), (Values{10, 100, 200}));
  EXPECT_EQ(applied(ImageOperation::kTranslateX, 1), (Values{0, 10, 100}));
  EXPECT_EQ(applied(ImageOperation::kTranslateX, -1.9), (Values{100, 200, 0}));
  EXPECT_EQ(applied(ImageOperation::kTranslateY, 1), (Values{0, 0, 0}));
  EXPECT_EQ(applied(ImageOperation::kRotate, 180), (Values{200, 100, 10}));
  EXPECT_EQ(applied(ImageOperation::kBrightness, 0.5), (Values{15, 150, 255}));
  EXPECT_EQ(applied(ImageOperation::kPosterize, 2), (Values{0, 64, 192}));
  EXPECT_EQ(applied(ImageOperation::kSolarize, 100), (Values{10, 155, 55}));
  EXPECT_EQ(applied(ImageOperation::kAutoContrast, 0), (Values{0, 120, 255}));
  EXPECT_EQ(applied(ImageOperation::kColor, -0.99)[2],
            applied(ImageOperation::kIdentity, 0)[2] - 1);
}

// 0, 1, 2, … as gray pixels, row by row.
std::vector<std::uint8_t> numbered(ImageSize size) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < size.height * size.width; ++i)
    pixels.insert(pixels.end(), 3, static_cast<std::uint8_t>(i));
  return pixels;
}

std::vector<int> grays(const std::vector<std::uint8_t>& pixels) {
  std::vector<int> values;
  for (std::size_t i = 0; i < pixels.size(); i += 3) values.push_back(pixels[i]);
  return values;
}

std::vector<int> turned(ImageSize size, int quarter_turns) {
  std::vector<std::uint8_t> pixels = numbered(size), copy;
  turn(pixels.data(), size, quarter_turns, copy);
  return grays(pixels);
}

TEST(Flips, MirrorRowsOrColumns) {
  using Values = std::vector<int>;
  std::vector<std::uint8_t> pixels = numbered({2, 3});
  flip_horizontally(pixels.data(), {2, 3});
  EXPECT_EQ(grays(pixels), (Values{2, 1, 0, 5, 4, 3}));
  pixels = numbered({3, 2});
  flip_vertically(pixels.data(), {3, 2});
  EXPECT_EQ(grays(pixels), (Values{4, 5, 2, 3, 0, 1}));
}

TEST(Turn, IsCounterclockwise) {
  using Values = std::vector<int>;
  const ImageSize square{3, 3};
  EXPECT_EQ(turned(square, 0), (Values{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(turned(square, 1), (Values{2, 5, 8, 1, 4, 7, 0, 3, 6}));
  EXPECT_EQ(turned(square, 2), (Values{8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(turned(square, 3), (Values{6, 3, 0, 7, 4, 1, 8, 5, 2}));
  EXPECT_EQ(turned({2, 3}, 2), (Values{5, 4, 3, 2, 1, 0}));
}

TEST(Turn, DrawsAllTurnsOfSquaresAndHalfTurnsOfOthers) {
  std::map<int, int> squares, others;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    RandomSequence random{6, i};
    ++squares[draw_quarter_turns({8, 8}, random)];
    ++others[draw_quarter_turns({8, 9}, random)];
  }
  ASSERT_EQ(squares.size(), 4U);
  for (const auto& [turns, count] : squares) EXPECT_NEAR(count, 1000, 120);
  ASSERT_EQ(others.size(), 2U);
  EXPECT_NEAR(others[0], 2000, 150);
  EXPECT_NEAR(others[2], 2000, 150);
}

TEST(ColorJitter, DrawsThreeFactorsInAnyOrder) {
  std::map<ImageOperation, std::pair<double, double>> ranges;
  std::map<std::vector<ImageOperation>, int> orders;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    RandomSequence random{3, i};
    std::vector<ImageOperation> order;
    for (const DrawnOperation& drawn : draw_color_jitter(random)) {
      auto& [low, high] = ranges.try_emplace(drawn.operation, 9, -9).first->second;
      low = std::min(low, drawn.magnitude);
      high = std::max(high, drawn.magnitude);
      order.push_back(drawn.operation);
    }
    ++orders[order];
  }
  ASSERT_EQ(ranges.size(), 3U);
  for (const ImageOperation operation :
       {ImageOperation::kBrightness, ImageOperation::kContrast, ImageOperation::kColor}) {
    EXPECT_NEAR(ranges[operation].first, -0.4, 0.005);
    EXPECT_NEAR(ranges[operation].second, 0.4, 0.005);
  }
  ASSERT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 120);
}

}  // namespace
}  // namespace kiln
