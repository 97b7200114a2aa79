#include "data/transform/image_pipeline.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

TEST(Normalize, MatchesTheFormulaBitForBitForAnyLength) {
  const Normalization scaling{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  for (const std::size_t pixels : {0U, 1U, 15U, 16U, 17U, 768U}) {
    std::vector<std::uint8_t> rgb(pixels * 3);
    for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<std::uint8_t>(i / 3 + i % 3);
    std::vector<float> out(rgb.size() + 1, 77.0F);
    normalize_pixels(rgb.data(), pixels, scaling, out.data());
    for (std::size_t i = 0; i < rgb.size(); ++i)
      EXPECT_EQ(out[i],
                (static_cast<float>(rgb[i]) / 255 - static_cast<float>(scaling.mean[i % 3])) /
                    static_cast<float>(scaling.std[i % 3]));
    EXPECT_EQ(out.back(), 77.0F);
  }
}

}  // namespace
}  // namespace kiln
