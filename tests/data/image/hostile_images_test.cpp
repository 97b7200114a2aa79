// Small files that claim, or repeat, more than their bytes can hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/make_image.h"
#include "peak_memory.h"

namespace kiln {
namespace {

using namespace std::string_literals;

std::string hostile_fault(const std::string& bytes) {
  try {
    decode_image(bytes, Exif::kIgnore);
  } catch (const ImageFault& fault) {
    return fault.what();
  }
  return "";
}

// Refused, and without memory for its pixels.
void expect_refused(const std::string& bytes, const std::string& name) {
  EXPECT_NE(hostile_fault(bytes), "") << name;
  EXPECT_LT(test::peak_mib_of([&] { hostile_fault(bytes); }), 64U) << name;
}

std::string big32(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

std::string little32(std::uint32_t value) {
  const std::string text = big32(value);
  return {text.rbegin(), text.rend()};
}

// CRC-32 (ISO 3309), a bit at a time.
std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

constexpr std::uint32_t kSide = 13'000;  // within the limit of pixels

TEST(HostileImages, EveryPnmFormIsAsLongAsItSays) {
  for (const char form : {'5', '6'}) expect_refused("P"s + form + " 13000 13000 255\n", {form});
  EXPECT_NE(hostile_fault("P6 1 1 255\n12"), "") << "two samples of three";
  EXPECT_EQ(hostile_fault("P6 1 1 255\n123"), "");
}

TEST(HostileImages, APngHeaderAloneTakesNoMemory) {
  std::string png = test::encode_png(test::gradient(8, 8));
  png.replace(16, 8, big32(kSide) + big32(kSide));
  png.replace(29, 4, big32(checksum(std::string_view(png).substr(12, 17))));
  expect_refused(png, "PNG");
}

TEST(HostileImages, AJpegHeaderAloneTakesNoMemory) {
  for (const bool progressive : {false, true}) {
    std::string jpeg = test::encode_jpeg(test::gradient(8, 8), {.progressive = progressive});
    jpeg.replace(jpeg.find(progressive ? "\xff\xc2" : "\xff\xc0") + 5, 4, "\x32\xc8\x32\xc8");
    expect_refused(jpeg, progressive ? "progressive" : "baseline");
  }
}

TEST(HostileImages, ABmpHeaderAloneTakesNoMemory) {
  for (const std::uint32_t compression : {0U, 1U}) {
    std::string bmp = test::encode_bmp(test::gradient(8, 8));
    bmp.replace(18, 8, little32(kSide) + little32(kSide));
    if (compression != 0) bmp[28] = 8;
    bmp.replace(30, 4, little32(compression));
    expect_refused(bmp, "BMP");
  }
}

struct TiffForm {
  std::uint32_t side, tile;
  std::uint16_t samples, photometric, planes, compression;
};

// One value; `type` 3: of 16 bits, 4: of 32.
std::string tiff_entry(std::uint16_t tag, std::uint16_t type, std::uint32_t value) {
  const auto word = [](std::uint16_t number) { return little32(number).substr(0, 2); };
  return word(tag) + word(type) + little32(1) + little32(value);
}

std::string tiff_of(const std::string& entries) {
  const auto count = static_cast<std::uint32_t>(entries.size() / 12);
  return "II*\0"s + little32(8) + little32(count).substr(0, 2) + entries + little32(0);
}

// Tiles of two bytes.
std::string tiled_tiff(const TiffForm& form) {
  return tiff_of(tiff_entry(256, 4, form.side) + tiff_entry(257, 4, form.side) +
                 tiff_entry(258, 3, 8) + tiff_entry(259, 3, form.compression) +
                 tiff_entry(262, 3, form.photometric) + tiff_entry(277, 3, form.samples) +
                 tiff_entry(284, 3, form.planes) + tiff_entry(322, 4, form.tile) +
                 tiff_entry(323, 4, form.tile) + tiff_entry(324, 4, 8) + tiff_entry(325, 4, 2));
}

TEST(HostileImages, ATiffTileIsNotMuchLargerThanTheImage) {
  constexpr std::uint16_t kNone = 1, kLzw = 5, kDeflate = 8, kGray = 1, kRgb = 2, kCmyk = 5;
  for (const std::uint16_t compression : {kNone, kLzw, kDeflate}) {
    expect_refused(tiled_tiff({16, 46'320, 4, kCmyk, 2, compression}), "CMYK tiles of 2 GiB");
    expect_refused(tiled_tiff({16, 46'320, 1, kGray, 1, compression}), "gray tiles of 2 GiB");
    expect_refused(tiled_tiff({16, 16'384, 3, kRgb, 1, compression}), "RGB tiles of 768 MiB");
    expect_refused(tiled_tiff({kSide, 256, 3, kRgb, 1, compression}), "an image of 169 Mpx");
  }
}

// One pixel of 8 bits, and a second width.
std::string small_tiff(std::uint16_t photometric) {
  return tiff_of(tiff_entry(256, 4, 1) + tiff_entry(256, 4, 8) + tiff_entry(257, 4, 1) +
                 tiff_entry(258, 3, 8) + tiff_entry(259, 3, 1) + tiff_entry(262, 3, photometric) +
                 tiff_entry(273, 4, 8) + tiff_entry(277, 3, 1) + tiff_entry(278, 4, 1) +
                 tiff_entry(279, 4, 1));
}

TEST(HostileImages, ATiffWithoutItsPaletteIsNotGray) {
  constexpr std::uint16_t kPalette = 3;
  expect_refused(small_tiff(kPalette), "indexes");
}

TEST(HostileImages, OfTwoWidthsOfATiffTheFirstOneCounts) {
  const std::string tiff = small_tiff(/*gray*/ 1);
  EXPECT_EQ(read_image_size(tiff, Exif::kIgnore), (ImageSize{1, 1}));
  EXPECT_EQ(decode_image(tiff, Exif::kIgnore).image.size, (ImageSize{1, 1}));
}

// A progressive JPEG that repeats, with its table, a scan of a few bytes for all pixels.
std::string jpeg_of_many_scans(int side, int count) {
  std::string jpeg =
      test::encode_jpeg(test::plain(side, side, 90, 90, 90), {.progressive = true, .gray = true});
  const std::size_t scan = jpeg.find("\xff\xda", jpeg.find("\xff\xda") + 2);
  const std::size_t table = jpeg.rfind("\xff\xc4", scan), end = jpeg.find("\xff\xc4", scan);
  std::string more;
  for (int i = 0; i < count; ++i) more += jpeg.substr(table, end - table);
  return jpeg.insert(jpeg.rfind("\xff\xd9"), more);
}

TEST(HostileImages, ScansOfAJpegAreLimitedByItsPixels) {
  EXPECT_EQ(hostile_fault(jpeg_of_many_scans(500, 300)), "");
  const std::string whole = jpeg_of_many_scans(4000, 460);
  EXPECT_NE(hostile_fault(whole), "");
  const auto cut_within_a_marker = whole.substr(0, whole.size() - 20);
  const auto decode_part_of = [](const std::string& bytes) {
    ImagePart part;
    const auto corner = [](ImageSize) { return WantedPart{{0, 0, {100, 100}}}; };
    try {
      decode_part(bytes, Exif::kIgnore, corner, part);
    } catch (const ImageFault&) {
    }
  };
  const double once = test::use_of_child([&] { hostile_fault(whole); }).cpu_seconds;
  const double again = test::use_of_child([&] { decode_part_of(whole); }).cpu_seconds;
  const double cut = test::use_of_child([&] { decode_part_of(cut_within_a_marker); }).cpu_seconds;
  EXPECT_LT(again, 1.7 * once + 0.2) << "a second attempt";
  EXPECT_LT(cut, 1.7 * once + 0.2) << "a second attempt";
}

// Of the samples of an image of one color, made less high.
int largest_error(int from, int to, std::uint8_t color) {
  const Image image = test::plain(from, 8, color, color, color);
  std::vector<std::uint8_t> made(static_cast<std::size_t>(to) * 8 * 3);
  const auto axis = [](int length, int resized) {
    return ResampleAxis{.begin = 0,
                        .length = static_cast<double>(length),
                        .resized = resized,
                        .first = 0,
                        .count = resized};
  };
  Resampler().write({image.pixels.data(), {0, 0, image.size}}, axis(from, to), axis(8, 8), false,
                    made.data());
  int largest = 0;
  for (const std::uint8_t sample : made) largest = std::max(largest, std::abs(sample - color));
  return largest;
}

TEST(HostileImages, ShrinkingAThousandfoldDoesNotDrift) {
  for (const std::uint8_t color : {0, 1, 100, 254, 255}) {
    EXPECT_LE(largest_error(8000, 37, color), 1) << int{color};
    for (const int to : {1, 3, 9}) EXPECT_EQ(largest_error(8000, to, color), 0) << int{color};
  }
}

TEST(HostileImages, ShrinkingKeepsThePlaceOfWhatIsSeen) {
  Image image = test::plain(1000, 3000, 0, 0, 0);  // the left half is white
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    if (i / 3 % 3000 < 1500) image.pixels[i] = 255;
  std::uint8_t made[2 * 4 * 3] = {};
  const auto axis = [](double length, int count) {
    return ResampleAxis{.begin = 0, .length = length, .resized = count, .first = 0, .count = count};
  };
  Resampler().write({image.pixels.data(), {0, 0, image.size}}, axis(1000, 2), axis(3000, 4), true,
                    made);
  EXPECT_EQ(made[0], 0) << "mirrored";
  EXPECT_EQ(made[9], 255);
  EXPECT_EQ(made[12], made[0]);
}

}  // namespace
}  // namespace kiln
