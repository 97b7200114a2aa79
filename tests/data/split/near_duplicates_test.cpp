#include "data/split/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "data/image/resample.h"
#include "data/make_image.h"
#include "tools/demo_data/demo_data.h"

namespace kiln {
namespace {

constexpr int kShapes = 10;

Image resized(const Image& image, double times) {
  const auto axis = [times](int length) {
    const int side = static_cast<int>(length * times);
    return ResampleAxis{
        .begin = 0, .length = double(length), .resized = side, .first = 0, .count = side};
  };
  const ResampleAxis rows = axis(image.size.height), columns = axis(image.size.width);
  Image out{{rows.count, columns.count}, {}};
  out.pixels.resize(static_cast<std::size_t>(rows.count) * columns.count * 3);
  Resampler().write({image.pixels.data(), {0, 0, image.size}}, rows, columns, false,
                    out.pixels.data());
  return out;
}

Image recompressed(const Image& image, int quality) {
  return decode_image(encode_jpeg(image, quality), Exif::kIgnore).image;
}

std::vector<Image> drawings(int count) {
  std::vector<Image> images;
  for (int i = 0; i < count; ++i)
    images.push_back(draw_demo_image(i % kShapes, 96, 5, static_cast<std::uint64_t>(i)));
  return images;
}

TEST(NearDuplicates, FindsOtherSizesAndQualities) {
  std::vector<LookPrint> looks;
  const std::vector<Image> images = drawings(40);
  for (const Image& image : images) looks.push_back(look_of(image));
  EXPECT_TRUE(near_duplicates(looks).empty());
  for (const Image& image : images)
    for (const Image& copy : {recompressed(image, 75), recompressed(image, 40),
                              recompressed(resized(image, 0.5), 85), resized(image, 1.6)})
      looks.push_back(look_of(copy));
  const std::vector<ImagePair> pairs = near_duplicates(looks);
  EXPECT_EQ(pairs.size(), 4 * images.size());
  const auto drawing_of = [&](std::uint32_t i) {
    return i < images.size() ? i : (i - images.size()) / 4;
  };
  std::set<std::uint32_t> found;
  for (const auto& [a, b] : pairs) {
    EXPECT_LT(a, b);
    EXPECT_EQ(drawing_of(a), drawing_of(b));
    found.insert(b);
  }
  EXPECT_EQ(found.size(), 4 * images.size());
}

TEST(NearDuplicates, ConnectsManyThatAreAllAlike) {
  const LookPrint one = look_of(draw_demo_image(0, 64, 1, 1));
  EXPECT_EQ(near_duplicates(std::vector<LookPrint>(3000, one)).size(), 2999U);
}

// The same frequencies, other colors.
TEST(NearDuplicates, LooksAtColors) {
  Image other = test::gradient(64, 64);
  const LookPrint look = look_of(other);
  for (std::size_t i = 0; i < other.pixels.size(); i += 3)
    std::swap(other.pixels[i], other.pixels[i + 2]);
  EXPECT_TRUE(look_alike(look, look));
  EXPECT_FALSE(look_alike(look, look_of(other)));
}

TEST(NearDuplicates, LeavesEmptyImagesAlone) {
  const std::vector<LookPrint> looks(3, look_of(test::plain(40, 40, 3, 3, 3)));
  EXPECT_TRUE(looks[0].is_empty);
  EXPECT_TRUE(near_duplicates(looks).empty());
  EXPECT_TRUE(near_duplicates(std::vector<LookPrint>(3)).empty());
  EXPECT_TRUE(near_duplicates({}).empty());
}

TEST(NearDuplicates, TakesAnySize) {
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{1, 500}, ImageSize{300, 2}})
    EXPECT_EQ(look_of(test::noise(size.height, size.width)).side,
              std::min(size.height, size.width));
}

TEST(UnionFind, SetsAreNamedByTheirFirst) {
  UnionFind sets(6);
  for (const auto& [a, b] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{4, 2}, {2, 1}, {5, 3}})
    EXPECT_TRUE(sets.unite(a, b));
  EXPECT_FALSE(sets.unite(1, 4));
  std::vector<std::uint32_t> roots;
  for (std::uint32_t i = 0; i < 6; ++i) roots.push_back(sets.root_of(i));
  EXPECT_EQ(roots, (std::vector<std::uint32_t>{0, 1, 1, 3, 1, 3}));
}

}  // namespace
}  // namespace kiln
