// What of a TIFF is read, what is refused since nothing says what its samples mean, and what is
// told as damage. tests/parity/ compares what is read with Pillow.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/image/image.h"
#include "data/make_image.h"

namespace kiln {
namespace {

using namespace std::string_literals;

std::string low_bytes(std::uint32_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

constexpr std::uint16_t kTagBits = 258, kTagCompression = 259, kTagPhotometric = 262,
                        kTagSamples = 277, kTagPlanes = 284, kTagColorMap = 320, kTagExtras = 338,
                        kTagFormat = 339;
constexpr std::uint16_t kInJpeg = 7, kInGroup4 = 4, kInPackBits = 32773;
using TiffTags = std::map<std::uint16_t, std::vector<std::uint16_t>>;

// One strip, or one for each plane. `tags` hold 16-bit values; sizes and offsets are added.
std::string written_tiff(int height, int width, TiffTags tags,
                         const std::vector<std::string>& strips) {
  tags.insert({{256, {static_cast<std::uint16_t>(width)}},
               {257, {static_cast<std::uint16_t>(height)}},
               {kTagCompression, {1}},
               {278, {static_cast<std::uint16_t>(height)}}});
  std::string body, offsets, lengths;
  for (const std::string& strip : strips) {
    offsets += low_bytes(static_cast<std::uint32_t>(8 + body.size()), 4);
    lengths += low_bytes(static_cast<std::uint32_t>(strip.size()), 4);
    body += strip;
  }
  std::map<std::uint16_t, std::pair<int, std::string>> entries = {{273, {4, offsets}},
                                                                  {279, {4, lengths}}};
  for (const auto& [tag, values] : tags) {
    std::string packed;
    for (const std::uint16_t value : values) packed += low_bytes(value, 2);
    entries[tag] = {3, packed};
  }
  std::string directory = low_bytes(static_cast<std::uint32_t>(entries.size()), 2);
  for (auto& [tag, entry] : entries) {
    auto& [type, value] = entry;
    directory += low_bytes(tag, 2) + low_bytes(static_cast<std::uint32_t>(type), 2) +
                 low_bytes(static_cast<std::uint32_t>(value.size() / (type == 3 ? 2 : 4)), 4);
    value.resize(std::max<std::size_t>(value.size(), 4));
    directory +=
        value.size() == 4 ? value : low_bytes(static_cast<std::uint32_t>(8 + body.size()), 4);
    if (value.size() > 4) body += value;
  }
  return "II*\0"s + low_bytes(static_cast<std::uint32_t>(8 + body.size()), 4) + body + directory +
         low_bytes(0, 4);
}

struct TiffPixels {
  int bits = 8;
  std::uint16_t samples = 1;
  int photometric = 1;  // negative: not said
  std::vector<std::uint16_t> extras;
  bool is_planar = false;
};

// Two pixels; sample s of pixel p is 100 p + 10 s + 7, in its high byte.
std::string written_tiff(const TiffPixels& form, TiffTags tags = {}) {
  tags.insert({{kTagBits, std::vector<std::uint16_t>(form.samples, form.bits)},
               {kTagSamples, {form.samples}},
               {kTagPlanes, {static_cast<std::uint16_t>(form.is_planar ? 2 : 1)}}});
  if (form.photometric >= 0) tags[kTagPhotometric] = {static_cast<std::uint16_t>(form.photometric)};
  if (!form.extras.empty()) tags[kTagExtras] = form.extras;
  std::vector<std::string> strips(form.is_planar ? form.samples : 1);
  for (int pixel = 0; pixel < 2; ++pixel)
    for (int s = 0; s < form.samples; ++s)
      strips[form.is_planar ? s : 0] +=
          std::string(form.bits / 8 - 1, 'x') + static_cast<char>(100 * pixel + 10 * s + 7);
  return written_tiff(1, 2, std::move(tags), strips);
}

DecodedImage decoded_tiff(const std::string& bytes) {
  return decode_image(bytes, Exif::kIgnore);
}

std::string tiff_fault(const std::string& bytes) {
  try {
    decoded_tiff(bytes);
  } catch (const ImageFault& fault) {
    return fault.what();
  }
  return {};
}

using TiffSamples = std::vector<std::uint8_t>;
const TiffSamples kGrayPixels = {7, 7, 7, 107, 107, 107}, kRgbPixels = {7, 17, 27, 107, 117, 127};

TEST(TiffForms, BandsThatAreNotRgbAreRefused) {
  constexpr int kWhiteIsZero = 0, kBlackIsZero = 1, kPalette = 3, kUnsaid = -1;
  for (const int bits : {8, 16})
    for (const bool is_planar : {false, true})
      for (const int photometric : {kWhiteIsZero, kBlackIsZero, kPalette, kUnsaid})
        for (const std::uint16_t samples : {3, 4, 13, 17}) {
          if (photometric == kPalette && bits == 16) continue;  // of a size that no map has
          const std::vector<std::uint16_t> extras(photometric < 0 ? 0 : samples - 1, 0);
          EXPECT_EQ(tiff_fault(written_tiff({bits, samples, photometric, extras, is_planar},
                                            {{kTagColorMap, std::vector<std::uint16_t>(768, 9)}})),
                    "a TIFF of " + std::to_string(samples) +
                        " bands that are not marked as RGB is not supported: write those to "
                        "be seen as a gray or RGB image")
              << bits << is_planar << photometric;
        }
}

TEST(TiffForms, GrayHasOneAlpha) {
  for (const std::uint16_t kind : {0, 1, 2})
    EXPECT_EQ(decoded_tiff(written_tiff({8, 2, 1, {kind}})).image.pixels, kGrayPixels) << kind;
  for (const std::uint16_t kind : {1, 2})
    EXPECT_EQ(decoded_tiff(written_tiff({16, 2, 1, {kind}})).image.pixels, kGrayPixels) << kind;
  EXPECT_NE(tiff_fault(written_tiff({16, 2, 1, {0}})), "") << "two bands of a radar";
}

TEST(TiffForms, RgbHasOtherBandsBesides) {
  for (const int bits : {8, 16})
    for (const std::uint16_t samples : {3, 4, 5, 6})
      EXPECT_EQ(
          decoded_tiff(written_tiff({bits, samples, 2, std::vector<std::uint16_t>(samples - 3, 0)}))
              .image.pixels,
          kRgbPixels)
          << samples;
  const TiffSamples divided = {7 * 255 / 37, 17 * 255 / 37, 27 * 255 / 37, 199, 217, 236};
  EXPECT_EQ(decoded_tiff(written_tiff({8, 5, 2, {1, 0}})).image.pixels, divided)
      << "alpha, then a band";
  EXPECT_EQ(tiff_fault(written_tiff({8, 7, 2, {0, 0, 0, 0}})),
            "a TIFF of 7 bands is not supported: write those to be seen as a gray or RGB image");
  EXPECT_NE(tiff_fault(written_tiff({8, 7, 5, {0, 0, 0}})), "") << "CMYK";
}

TEST(TiffForms, OnlyNumbersWithoutASignAreRead) {
  for (const int bits : {8, 16})
    for (const std::uint16_t samples : {1, 3}) {
      const TiffPixels form = {bits, samples, samples == 1 ? 1 : 2, {}};
      const auto bytes_of = [&](std::uint16_t format) {
        return written_tiff(form, {{kTagFormat, std::vector<std::uint16_t>(samples, format)}});
      };
      constexpr std::uint16_t kUnsigned = 1, kSigned = 2, kFloat = 3, kUndefined = 4;
      constexpr std::uint16_t kComplex = 5, kComplexFloat = 6;
      for (const std::uint16_t format : {kUnsigned, kUndefined})
        EXPECT_EQ(tiff_fault(bytes_of(format)), "") << format;
      for (const std::uint16_t format : {kSigned, kFloat, kComplex, kComplexFloat})
        EXPECT_NE(tiff_fault(bytes_of(format)).find("without a sign"), std::string::npos) << format;
    }
}

TEST(TiffForms, APaletteMayHaveEightBits) {
  for (const int unit : {1, 256}) {
    std::vector<std::uint16_t> map(768);
    for (std::size_t i = 0; i < map.size(); ++i)
      map[i] =
          static_cast<std::uint16_t>((i % 256 + i / 256) % 256 * static_cast<std::size_t>(unit));
    EXPECT_EQ(decoded_tiff(written_tiff({8, 1, 3, {}}, {{kTagColorMap, map}})).image.pixels,
              (TiffSamples{7, 8, 9, 107, 108, 109}))
        << unit;
  }
}

std::string gray_strip(std::uint16_t compression, int side, const std::string& strip) {
  const auto bits = static_cast<std::uint16_t>(compression == kInGroup4 ? 1 : 8);
  return written_tiff(side, side,
                      {{kTagCompression, {compression}},
                       {kTagBits, {bits}},
                       {kTagSamples, {1}},
                       {kTagPhotometric, {1}}},
                      {strip});
}

TEST(TiffForms, WhatTheCodecPassedOverIsDamage) {
  const auto is_told = [](const std::string& bytes) {
    return decoded_tiff(bytes).damage.starts_with("TIFF data is corrupt in places: ");
  };
  const std::string jpeg = test::encode_jpeg(test::noise(64, 64), {.gray = true});
  EXPECT_EQ(decoded_tiff(gray_strip(kInJpeg, 64, jpeg)).damage, "");
  EXPECT_TRUE(is_told(gray_strip(kInJpeg, 64, std::string(jpeg).erase(jpeg.size() / 2, 200))));
  EXPECT_EQ(decoded_tiff(gray_strip(kInGroup4, 8, "\xff\x00\x10\x01"s)).damage, "")
      << "eight white rows";
  EXPECT_TRUE(is_told(gray_strip(kInGroup4, 16, "\xff\x02\xaa\x55\x33"s)));
  EXPECT_EQ(decoded_tiff(gray_strip(kInPackBits, 2, "\3abcd"s)).damage, "");
  EXPECT_TRUE(is_told(gray_strip(kInPackBits, 2, "\4abcde"s))) << "a byte too many";
  EXPECT_EQ(decoded_tiff(written_tiff({8, 1, 1, {}}, {{65000, {}}})).damage, "") << "no value";
}

TEST(TiffForms, ZerosInsteadOfCompressedDataAreDamage) {
  const std::string letters(100, 'x');
  EXPECT_EQ(decoded_tiff(gray_strip(kInPackBits, 10, "\x63"s + letters)).damage, "");
  EXPECT_NE(decoded_tiff(
                gray_strip(kInPackBits, 10, "\x1d"s + letters.substr(70) + std::string(140, '\0')))
                .damage,
            "");
  const std::string jpeg = test::encode_jpeg(test::noise(64, 64), {.gray = true});
  EXPECT_NE(
      decoded_tiff(gray_strip(kInJpeg, 64,
                              jpeg.substr(0, jpeg.size() / 2) + std::string(jpeg.size() / 2, '\0')))
          .damage,
      "");
}

}  // namespace
}  // namespace kiln
