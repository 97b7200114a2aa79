#include "data/image/image.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/image/codec.h"
#include "data/image/unread_kind.h"
#include "data/make_image.h"

namespace kiln {
namespace {

using test::encode_jpeg;
using test::JpegForm;
using namespace std::string_literals;

std::string fault_of(std::string_view bytes) {
  try {
    decode_image(bytes, Exif::kIgnore);
  } catch (const ImageFault& fault) {
    return fault.what();
  }
  return {};
}

std::string size_fault_of(std::string_view bytes) {
  try {
    read_image_size(bytes, Exif::kIgnore);
  } catch (const ImageFault& fault) {
    return fault.what();
  }
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct Encoded {
  std::string kind, name, bytes;
  int tolerance;
};

std::vector<Encoded> every_kind(const Image& image) {
  return {{"PNG", "8 bit", test::encode_png(image), 0},
          {"PNG", "8 bit, alpha", test::encode_png(image, 8, true), 0},
          {"PNG", "16 bit keeps the high byte", test::encode_png(image, 16), 0},
          {"PNG", "16 bit, alpha", test::encode_png(image, 16, true), 0},
          {"BMP", "24 bit", test::encode_bmp(image), 0},
          {"PNM", "raw color", test::encode_ppm(image), 0},
          {"TIFF", "8 bit", test::encode_tiff(image), 0},
          {"TIFF", "16 bit keeps the high byte", test::encode_tiff(image, 16), 0},
          {"WebP", "lossless", test::encode_webp_lossless(image), 0},
          {"JPEG", "baseline", encode_jpeg(image), 6},
          {"JPEG", "progressive", encode_jpeg(image, {.progressive = true}), 6},
          {"JPEG", "inverted CMYK", encode_jpeg(image, {.cmyk = true}), 6}};
}

TEST(Decode, DecodesEveryFormat) {
  const Image image = test::gradient(37, 53);
  for (const Encoded& encoded : every_kind(image)) {
    SCOPED_TRACE(encoded.kind + " " + encoded.name);
    EXPECT_EQ(image_kind(encoded.bytes), encoded.kind);
    const DecodedImage decoded = decode_image(encoded.bytes, Exif::kIgnore);
    EXPECT_EQ(decoded.damage, "");
    EXPECT_LE(test::largest_difference(decoded.image, image), encoded.tolerance);
    EXPECT_EQ(read_image_size(encoded.bytes, Exif::kIgnore), image.size);
  }
}

TEST(Decode, ReadsTheSizeFromThePrefix) {
  const Image image = test::gradient(300, 301);
  for (const Encoded& encoded : every_kind(image)) {
    SCOPED_TRACE(encoded.kind + " " + encoded.name);
    EXPECT_EQ(read_image_size(std::string_view(encoded.bytes).substr(0, 4096), Exif::kIgnore),
              image.size);
  }
}

TEST(Decode, ReplicatesGray) {
  const Image decoded =
      decode_image(encode_jpeg(test::plain(16, 16, 90, 0, 0), {.gray = true}), Exif::kIgnore).image;
  EXPECT_LE(test::largest_difference(decoded, test::plain(16, 16, 90, 90, 90)), 1);
}

TEST(Decode, ReadsEveryRawPnmForm) {
  const Image red_and_gray{{1, 2}, {255, 0, 0, 51, 51, 51}};
  const Image black_and_white{{1, 2}, {0, 0, 0, 255, 255, 255}};
  const std::vector<std::pair<std::string, Image>> cases = {
      {"P5\n# gray\n2 1 255\n\x00\xff"s, black_and_white},
      {"P5 2 1 65535\n\x00\xff\xff\x00"s, black_and_white},
      {"P6 2 1 5\n\x05\x00\x00\x01\x01\x01"s, red_and_gray}};
  for (const auto& [bytes, expected] : cases) {
    SCOPED_TRACE(bytes.substr(0, 2));
    EXPECT_EQ(test::largest_difference(decode_image(bytes, Exif::kIgnore).image, expected), 0);
  }
}

TEST(Decode, APnmThatIsTextOrABitmapIsABadImage) {
  for (const char* bytes :
       {"P1\n2 1\n10\n", "P2\n2 1 15\n0 15\n", "P3 2 1 5\n5 0 0  1 1 1", "P4\n2 1\n@"}) {
    SCOPED_TRACE(bytes);
    EXPECT_EQ(image_kind(bytes), "PNM");
    try {
      decode_image(bytes, Exif::kIgnore);
      ADD_FAILURE() << "no fault";
    } catch (const ImageFault& fault) {
      EXPECT_TRUE(contains(fault.what(), "form " + std::string(bytes, 2))) << fault.what();
    }
  }
}

// A BMP of 8 bits a pixel; `rest` follows the header. tests/parity/ compares all forms with Pillow.
std::string bmp_of(int width, int height, char bits, char compression, const std::string& rest) {
  const auto byte = [](int value) { return std::string{static_cast<char>(value)} + "\0\0\0"s; };
  return "BM"s + std::string(12, '\0') + byte(40) + byte(width) + byte(height) + "\1\0"s + bits +
         "\0"s + byte(compression) + std::string(12, '\0') + byte(2) + byte(0) + rest;
}

TEST(Decode, ABmpIsBlackBeyondItsPalette) {
  const Image expected{{1, 4}, {3, 2, 1, 9, 8, 7, 0, 0, 0, 0, 0, 0}};
  const std::string palette = "\1\2\3\0\7\x08\x09\0"s;
  for (const std::string& bytes :
       {bmp_of(4, 1, 8, 0, palette + "\0\1\2\xff"s), bmp_of(4, 1, 4, 0, palette + "\x01\x2f\0\0"s),
        bmp_of(4, 1, 8, 1, palette + "\0\4\0\1\2\xff"s),
        bmp_of(4, 1, 4, 2, palette + "\2\1\2\x2f"s)}) {
    EXPECT_EQ(test::largest_difference(decode_image(bytes, Exif::kIgnore).image, expected), 0);
  }
  const Image gray{{1, 4}, {0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0}};
  const std::string black_and_white = "\0\0\0\0\xff\xff\xff\0"s;
  EXPECT_EQ(
      test::largest_difference(
          decode_image(bmp_of(4, 1, 8, 0, black_and_white + "\0\1\1\0"s), Exif::kIgnore).image,
          gray),
      0);
}

TEST(Decode, SaysWhatOfABmpIsNotRead) {
  EXPECT_EQ(fault_of(bmp_of(4, 1, 2, 0, "12345678")),
            "a BMP with 2 bits a pixel and compression 0 is not supported");
  EXPECT_EQ(fault_of(bmp_of(4, 1, 24, 4, "12345678")),
            "a BMP with 24 bits a pixel and compression 4 is not supported");
  EXPECT_EQ(fault_of(bmp_of(1, 1, 32, 3, std::string(16, 'x'))),
            "a BMP with such bit fields is not supported");
  const auto with_header = [](char bytes) {
    return fault_of("BM" + std::string(12, '\0') + bytes + std::string(71, '\0'));
  };
  EXPECT_EQ(with_header(44), "a BMP with a header of 44 bytes is not supported");
  for (const char bytes : {12, 16, 64})
    EXPECT_TRUE(contains(with_header(bytes), "OS/2")) << int{bytes};
  for (const std::string& runs : {""s, "\4"s, "\3\1"s, "\3\1\0\1"s, "\0\3\1\1"s, "\0\2\1"s})
    EXPECT_EQ(fault_of(bmp_of(4, 1, 8, 1, "12345678" + runs)), "BMP data ends early")
        << runs.size();
}

TEST(Decode, DescribesFilesThatAreNotImages) {
  EXPECT_EQ(fault_of(""), "not an image: the file is empty");
  EXPECT_EQ(fault_of("<!DOCTYPE html><html>"),
            "not an image: it is HTML, such as a web server's error page");
  EXPECT_EQ(fault_of("root:x:0:0:secret\n"), "not an image: it is text");
  EXPECT_EQ(fault_of(std::string("\0\x01z", 3)), "not an image of a known format");
  EXPECT_EQ(fault_of("GIF89a......"),
            "a GIF image, which Kiln does not read (convert to PNG, for example with `magick`)");
  const auto begins = [](const std::string& bytes, const std::string& beginning) {
    return fault_of(bytes).starts_with(beginning);
  };
  const std::string heic =
      "\0\0\0\x18"
      "ftypmif1\0\0\0\0mif1heic"s;
  const std::string fault = fault_of_unread(heic);  // as where libheif is missing
  EXPECT_TRUE(fault.starts_with("a HEIC photo, which Kiln does not read (" + codec::heic_fault()));
  EXPECT_TRUE(
      begins("\0\0\0\x18"
             "ftypmif1\0\0\0\0mif1avif"s,
             "an AVIF image,"));
  EXPECT_TRUE(
      begins("\0\0\0\x18"
             "ftypisom\0\0\0\0isom"s,
             "a video,"));
  EXPECT_TRUE(
      begins("\0\0\0\x18"
             "ftypcrx \0\0\0\1crx isom"s,
             "a camera's RAW file,"));
  EXPECT_TRUE(begins("%PDF-1.7", "a PDF,"));
  EXPECT_TRUE(
      begins("version https://git-lfs.github.com/spec/v1", "not an image: it is a Git LFS"));
  EXPECT_EQ(size_fault_of(""), "not an image: the file is empty");
}

void set_big32(std::string& bytes, std::size_t at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (24 - 8 * i) & 0xff);
}

// The position of the frame header's height in a JPEG.
std::size_t frame_of(const std::string& jpeg) {
  return jpeg.find("\xff\xc0") + 5;
}

TEST(Decode, RefusesHugeImagesByTheirHeader) {
  const Image image = test::gradient(8, 8);
  std::string png = test::encode_png(image), jpeg = encode_jpeg(image);
  set_big32(png, 16, 30000);
  set_big32(png, 20, 30000);
  set_big32(jpeg, frame_of(jpeg), 30000U << 16 | 30000U);
  std::string bmp = test::encode_bmp(image);
  bmp.replace(18, 8, std::string("\x30\x75\0\0\x30\x75\0\0", 8));
  for (const std::string& bytes : {png, jpeg, bmp, std::string("P6 30000 30000 255\n")}) {
    EXPECT_TRUE(contains(fault_of(bytes), "30000 x 30000 exceeds the limit")) << fault_of(bytes);
    EXPECT_TRUE(contains(size_fault_of(bytes), "exceeds the limit"));
  }
}

TEST(Decode, NeverReadsPastTheEndOfATruncatedFile) {
  const Image image = test::gradient(40, 40);
  for (const Encoded& encoded : every_kind(image)) {
    SCOPED_TRACE(encoded.kind + " " + encoded.name);
    for (std::size_t size = 1; size + 16 < encoded.bytes.size(); size += 1 + size / 16) {
      const std::string cut = encoded.bytes.substr(0, size);
      size_fault_of(cut);
      try {
        EXPECT_NE(decode_image(cut, Exif::kIgnore).damage, "") << size;
      } catch (const ImageFault& fault) {
        EXPECT_STRNE(fault.what(), "");
      }
    }
  }
}

TEST(TruncatedJpeg, KeepsItsRowsAndFillsTheRestWithGray) {
  const Image image = test::gradient(64, 64);
  for (const int restart_rows : {0, 1}) {
    const std::string whole = encode_jpeg(image, {.restart_rows = restart_rows});
    const std::size_t scan = whole.find("\xff\xda");
    const DecodedImage decoded =
        decode_image(whole.substr(0, scan + (whole.size() - scan) * 85 / 100), Exif::kIgnore);
    EXPECT_EQ(decoded.damage, "JPEG data ends early: 16 of 64 rows missing");
    const std::vector<std::uint8_t>& pixels = decoded.image.pixels;
    const auto end = pixels.begin() + 48 * 64 * 3;
    EXPECT_EQ(std::vector<std::uint8_t>(end, pixels.end()),
              std::vector<std::uint8_t>(16 * 64 * 3, 128));
    const Image top{{47, 64}, {pixels.begin(), end - 64 * 3}};
    const Image expected{{47, 64}, {image.pixels.begin(), image.pixels.begin() + 47 * 64 * 3}};
    EXPECT_LE(test::largest_difference(top, expected), 6);
  }
}

TEST(TruncatedJpeg, WithMoreThanHalfMissingIsBad) {
  const std::string whole = encode_jpeg(test::gradient(64, 64));
  const std::size_t scan = whole.find("\xff\xda");
  EXPECT_EQ(fault_of(whole.substr(0, scan + 100)), "JPEG data ends early: 64 of 64 rows missing");
  EXPECT_EQ(fault_of(whole.substr(0, scan / 2)), "JPEG data ends within the header");
  EXPECT_TRUE(contains(size_fault_of(whole.substr(0, 40)), "JPEG header"));
}

TEST(TruncatedJpeg, WithoutEndMarkerIsComplete) {
  const std::string whole = encode_jpeg(test::gradient(64, 64));
  EXPECT_EQ(decode_image(whole.substr(0, whole.size() - 2), Exif::kIgnore).damage, "");
}

// As an interrupted copy leaves a file that was given its size beforehand.
TEST(TruncatedJpeg, ZerosInsteadOfItsEndAreNoData) {
  const Image image = test::noise(64, 64);
  const auto decoded = [](const std::string& bytes) {
    ImagePart part;
    const auto corner = [](ImageSize) { return WantedPart{{0, 0, {20, 20}}, 8}; };
    try {
      decode_part(bytes, Exif::kIgnore, corner, part);
    } catch (const ImageFault& fault) {
      return std::pair(fault_of(bytes) + "; " + fault.what(), Image());
    }
    DecodedImage all = decode_image(bytes, Exif::kIgnore);
    return std::pair(all.damage + "; " + part.damage, all.image);
  };
  for (const JpegForm& form : {JpegForm{}, JpegForm{.gray = true}, JpegForm{.progressive = true},
                               JpegForm{.cmyk = true}, JpegForm{.restart_rows = 1}}) {
    const std::string whole = encode_jpeg(image, form);
    EXPECT_EQ(decoded(whole + std::string(900, '\0')).first, "; ");
    for (const std::size_t percent : {2, 40, 60, 80, 95}) {
      const std::string cut = whole.substr(0, whole.size() * percent / 100);
      const auto [fault, expected] = decoded(cut);
      const auto [said, found] = decoded(cut + std::string(whole.size() - cut.size(), '\0'));
      EXPECT_EQ(said, fault) << percent;
      EXPECT_NE(said, "; ") << percent;
      EXPECT_EQ(test::largest_difference(found, expected), 0) << percent;
    }
  }
}

TEST(TruncatedWebp, ZerosInsteadOfItsEndAreNoData) {
  const std::string whole = test::encode_webp(test::noise(64, 64));
  for (const std::size_t percent : {20, 60, 95})
    EXPECT_EQ(fault_of(whole.substr(0, whole.size() * percent / 100) +
                       std::string(whole.size() - whole.size() * percent / 100, '\0')),
              "WebP data ends early");
  const std::string exif = "EXIF\xc8\0\0\0II*\0"s + std::string(196, '\0');
  EXPECT_EQ(fault_of(whole + exif), "");
}

// Damage within a scan may leave nothing but valid codes, too many of them.
TEST(CorruptJpeg, DataThatAScanLeavesUnreadIsDamage) {
  for (const JpegForm& form : {JpegForm{}, JpegForm{.gray = true}, JpegForm{.progressive = true},
                               JpegForm{.cmyk = true}}) {
    const std::string whole = encode_jpeg(test::noise(64, 64), form);
    const std::size_t middle = whole.rfind("\xff\xda") + 14;
    const auto damage_with = [&](std::size_t at, const std::string& bytes) {
      return decode_image(std::string(whole).insert(at, bytes), Exif::kIgnore).damage;
    };
    EXPECT_EQ(damage_with(middle, whole.substr(middle, 100)), "JPEG data is corrupt in places");
    const std::size_t end = whole.size() - 2;
    EXPECT_EQ(damage_with(end, std::string(100, 'x')), "JPEG data is corrupt in places");
    EXPECT_EQ(damage_with(end, std::string(4, 'x')), "");
    EXPECT_EQ(damage_with(end, std::string(100, '\0')), "");
  }
}

TEST(TruncatedJpeg, ProgressiveKeepsCoarsePixels) {
  const Image image = test::gradient(64, 64);
  const std::string whole = encode_jpeg(image, {.progressive = true});
  int damaged = 0;
  for (std::size_t size = whole.size() / 2; size < whole.size() - 2; ++size) {
    try {
      const DecodedImage decoded = decode_image(whole.substr(0, size), Exif::kIgnore);
      EXPECT_NE(decoded.damage, "") << size;
      ++damaged;
    } catch (const ImageFault& fault) {
      EXPECT_EQ(damaged, 0) << "worse with more bytes (" << size << "): " << fault.what();
    }
  }
  EXPECT_GT(damaged, 0);
}

}  // namespace
}  // namespace kiln
