// A decoded part equals the same part of the whole image.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/make_image.h"

namespace kiln {
namespace {

using test::encode_jpeg;

// Counts the samples of `wanted` that differ between the part and the whole.
int differing(const ImagePart& part, const Image& whole, const Region& wanted) {
  int count = 0;
  for (int y = wanted.top; y < wanted.top + wanted.size.height; ++y) {
    const int part_row = (y - part.region.top) * part.region.size.width;
    for (int x = wanted.left; x < wanted.left + wanted.size.width; ++x) {
      const std::uint8_t* got = part.pixels.data() + (part_row + x - part.region.left) * 3;
      const std::uint8_t* expected = whole.pixels.data() + (y * whole.size.width + x) * 3;
      count += std::memcmp(got, expected, 3) != 0 ? 1 : 0;
    }
  }
  return count;
}

std::vector<Region> regions_of(ImageSize size) {
  std::vector<Region> regions;
  for (int left = 0; left < 40; ++left)
    regions.push_back({left % 35, left, {17 + left % 9, 20 + left % 18}});
  for (int top = 0; top < 40; ++top) regions.push_back({top, 5, {size.height - top, 30}});
  for (int right = 1; right < 20; ++right)
    regions.push_back({0, 0, {size.height - right, size.width - right}});
  regions.push_back({size.height - 1, size.width - 1, {1, 1}});
  regions.push_back({0, 0, size});
  return regions;
}

TEST(DecodePart, EqualsTheWholeImageForEveryKindOfJpeg) {
  const Image image = test::noise(75, 117);
  std::vector<test::JpegForm> forms = {{.gray = true}, {.cmyk = true}, {.restart_rows = 1}};
  for (const bool progressive : {false, true})
    for (const int width : {1, 2, 4})
      for (const int height : {1, 2})
        forms.push_back(
            {.progressive = progressive, .chroma_width = width, .chroma_height = height});
  ImagePart part;
  for (const test::JpegForm& form : forms) {
    const std::string bytes = encode_jpeg(image, form);
    const Image whole = decode_image(bytes, Exif::kIgnore).image;
    int smaller = 0;
    for (const Region& wanted : regions_of(image.size)) {
      decode_part(
          bytes, Exif::kIgnore, [&](ImageSize) { return WantedPart{wanted}; }, part);
      EXPECT_EQ(part.whole, whole.size);
      EXPECT_EQ(part.damage, "");
      ASSERT_EQ(differing(part, whole, wanted), 0)
          << form.progressive << form.gray << form.cmyk << form.chroma_width << form.chroma_height
          << " at " << wanted.top << " " << wanted.left << " " << wanted.size.height << " "
          << wanted.size.width;
      smaller += part.region.size.height < whole.size.height ? 1 : 0;
    }
    EXPECT_GT(smaller, 50) << "the whole was decoded";
  }
}

TEST(DecodePart, IsTheWholeImageForOtherFormats) {
  const Image image = test::noise(20, 30);
  ImagePart part;
  decode_part(
      test::encode_png(image), Exif::kIgnore,
      [](ImageSize) {
        return WantedPart{{3, 4, {5, 6}}};
      },
      part);
  EXPECT_EQ(part.region, (Region{0, 0, {20, 30}}));
  EXPECT_EQ(differing(part, image, {3, 4, {5, 6}}), 0);
}

// A truncated file must have the same damage whichever part is decoded.
TEST(DecodePart, ReportsTheDamageOfTheWholeTruncatedFile) {
  const std::string bytes = encode_jpeg(test::noise(64, 64));
  const auto top_rows = [](ImageSize) { return WantedPart{{0, 0, {8, 8}}}; };
  for (const std::size_t percent : {30, 70, 90, 99}) {
    const std::string cut = bytes.substr(0, bytes.size() * percent / 100);
    std::string whole_says, part_says;
    ImagePart part;
    try {
      whole_says = decode_image(cut, Exif::kIgnore).damage;
    } catch (const ImageFault& fault) {
      whole_says = fault.what();
    }
    try {
      decode_part(cut, Exif::kIgnore, top_rows, part);
      part_says = part.damage;
    } catch (const ImageFault& fault) {
      part_says = fault.what();
    }
    EXPECT_NE(whole_says, "");
    EXPECT_EQ(part_says, whole_says) << percent;
  }
}

TEST(DecodePart, PassesOnExceptionsOfItsChooser) {
  ImagePart part;
  for (const std::string& bytes :
       {encode_jpeg(test::noise(16, 16)), test::encode_ppm(test::noise(16, 16))})
    EXPECT_THROW(
        decode_part(
            bytes, Exif::kIgnore, [](ImageSize) -> WantedPart { throw ImageFault("no"); }, part),
        ImageFault);
}

}  // namespace
}  // namespace kiln
