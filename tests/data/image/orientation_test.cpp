// Turning pictures upright. All eight orientations in four formats are compared with Pillow in
// tests/parity/decode_parity.py; here are the parts that the loader decodes.
#include "data/image/image.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "data/make_image.h"

namespace kiln {
namespace {

// `jpeg` with an APP1 segment that gives the orientation.
std::string with_orientation(const std::string& jpeg, int orientation) {
  std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 24);
  exif += std::string{static_cast<char>(orientation), 0, 0, 0, 0, 0, 0, 0};
  const std::string length{0, static_cast<char>(exif.size() + 2)};
  return jpeg.substr(0, 2) + "\xff\xe1" + length + exif + jpeg.substr(2);
}

const std::uint8_t* pixel(const PixelView& view, int row, int column) {
  const std::ptrdiff_t inside =
      std::ptrdiff_t{row - view.region.top} * view.region.size.width + (column - view.region.left);
  return view.pixels + inside * 3;
}

// The stored place of an upright pixel, by the table of the EXIF standard.
std::pair<int, int> stored_place(int orientation, int row, int column, ImageSize stored) {
  const int last_row = stored.height - 1, last_column = stored.width - 1;
  switch (orientation) {
    case 2:
      return {row, last_column - column};
    case 3:
      return {last_row - row, last_column - column};
    case 4:
      return {last_row - row, column};
    case 5:
      return {column, row};
    case 6:
      return {last_row - column, row};
    case 7:
      return {last_row - column, last_column - row};
    case 8:
      return {column, last_column - row};
    default:
      return {row, column};
  }
}

// The pixels of `wanted` that differ between a turned file and the same file without orientation.
int differing(const std::string& jpeg, int orientation, const Region& wanted, double shrinks_by) {
  ImagePart stored, part;
  decode_part(
      jpeg, Exif::kApply,
      [&](ImageSize whole) {
        return WantedPart{{0, 0, whole}, shrinks_by};
      },
      stored);
  decode_part(
      with_orientation(jpeg, orientation), Exif::kApply,
      [&](ImageSize) {
        return WantedPart{wanted, shrinks_by};
      },
      part);
  EXPECT_EQ(part.reduction, stored.reduction);
  const auto reduced = [&](int side) { return side / part.reduction; };
  int count = 0;
  for (int row = reduced(wanted.top); row < reduced(wanted.top + wanted.size.height); ++row)
    for (int column = reduced(wanted.left); column < reduced(wanted.left + wanted.size.width);
         ++column) {
      const auto [y, x] = stored_place(orientation, row, column, stored.region.size);
      count += std::memcmp(pixel(part.view(), row, column), pixel(stored.view(), y, x), 3) ? 1 : 0;
    }
  return count;
}

TEST(Orientation, PartsOfTurnedImagesHaveTheWholeImagesPixels) {
  const std::string jpeg = test::encode_jpeg(test::noise(64, 96), {});
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const ImageSize upright = orientation >= 5 ? ImageSize{96, 64} : ImageSize{64, 96};
    EXPECT_EQ(decode_image(with_orientation(jpeg, orientation), Exif::kApply).image.size, upright);
    EXPECT_EQ(read_image_size(with_orientation(jpeg, orientation), Exif::kApply), upright);
    EXPECT_EQ(read_image_size(with_orientation(jpeg, orientation), Exif::kIgnore),
              (ImageSize{64, 96}));
    for (const double shrinks_by : {1.0, 8.0, 16.0})
      for (const Region& wanted : {Region{0, 0, upright}, Region{8, 16, {24, 32}},
                                   Region{upright.height - 16, upright.width - 8, {16, 8}}})
        EXPECT_EQ(differing(jpeg, orientation, wanted, shrinks_by), 0)
            << orientation << " at " << wanted.top << ", shrunk by " << shrinks_by;
  }
}

// Reduced pixels count from the stored corner, which a turned image of odd sides has not.
TEST(Orientation, TurnedImagesOfOddSidesAreDecodedInFull) {
  const std::string jpeg = test::encode_jpeg(test::noise(63, 96), {});
  ImagePart part;
  decode_part(
      with_orientation(jpeg, 3), Exif::kApply,
      [](ImageSize whole) {
        return WantedPart{{0, 0, whole}, 16};
      },
      part);
  EXPECT_EQ(part.reduction, 1);
}

TEST(Orientation, IsFoundBehindStrayBytesAndInSeveralSegments) {
  const std::string jpeg = test::encode_jpeg(test::gradient(8, 6));
  const std::string turned = with_orientation(jpeg, 6), empty(
                                                            "\xff\xe1\0\x08"
                                                            "Exif\0\0",
                                                            10);
  EXPECT_EQ(read_orientation(turned), 6);
  EXPECT_EQ(read_orientation(turned.substr(0, 2) + empty + turned.substr(2)), 6);
  const std::string segment = turned.substr(2, turned.size() - jpeg.size());
  EXPECT_EQ(read_orientation(jpeg.substr(0, 20) + "stray\xff" + segment + jpeg.substr(20)), 6);
  std::string first = segment.substr(0, 30), second = empty + segment.substr(30);
  first[3] = 28;
  second[3] = static_cast<char>(8 + segment.size() - 30);
  EXPECT_EQ(read_orientation(jpeg.substr(0, 2) + first + second + jpeg.substr(2)), 6);
}

TEST(Orientation, IsFoundInATextOfAPng) {
  const std::string exif =
      with_orientation(test::encode_jpeg(test::gradient(8, 6)), 8).substr(6, 32);
  std::string text = "\nexif\n      32\n";
  for (const unsigned char byte : exif) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
    if (text.size() % 72 == 0) text += '\n';
  }
  const std::string keyword("Raw profile type exif\0", 22),
      png = test::encode_png(test::gradient(8, 6));
  const auto with = [&](const std::string& kind, const std::string& content) {
    const auto size = static_cast<char>(content.size());
    return png.substr(0, 33) + std::string{0, 0, 0, size} + kind + content + "crc!" +
           png.substr(33);
  };
  EXPECT_EQ(read_orientation(with("tEXt", keyword + text)), 8);
  std::string packed(compressBound(text.size()), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(text.data()), text.size()),
            Z_OK);
  packed.resize(size);
  EXPECT_EQ(read_orientation(with("zTXt", keyword + '\0' + packed)), 8);
  EXPECT_EQ(read_orientation(with("zTXt", keyword + '\0' + packed.substr(0, 9))), 1);
}

TEST(Orientation, IsEmptyWhereAWebpEndsBeforeIt) {
  const std::string header("RIFF\x30\0\0\0WEBPVP8X\x0a\0\0\0\x08\0\0\0\0\0\0\0\0\0", 30);
  EXPECT_EQ(read_orientation(header), std::nullopt);
  EXPECT_EQ(read_orientation("RIFF"), 1);
}

}  // namespace
}  // namespace kiln
