// Damaged images may be refused or partly decoded; they must never crash, hang or exceed the memory
// limit.
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/mutate.h"
#include "data/image/codec.h"
#include "data/image/image.h"
#include "data/make_image.h"

namespace kiln {
namespace {

void expect_no_crash(const std::string& valid) {
  ASSERT_EQ(decode_image(valid, Exif::kIgnore).damage, "");
  const auto refused = test::count_refused<ImageFault>(valid, [](const std::string& bytes) {
    const DecodedImage decoded = decode_image(bytes, Exif::kIgnore);
    const ImageSize size = decoded.image.size;
    const std::size_t samples = 3 * std::size_t(size.height) * std::size_t(size.width);
    ASSERT_EQ(decoded.image.pixels.size(), samples);
    ASSERT_EQ(read_image_size(bytes, Exif::kIgnore), size);
    const Region middle = {size.height / 3, size.width / 3, {(size.height + 2) / 3, 1}};
    ImagePart part;
    decode_part(
        bytes, Exif::kIgnore,
        [&](ImageSize) {
          return WantedPart{middle, 4};
        },
        part);
    ASSERT_EQ(part.whole, size);
  });
  EXPECT_GT(refused, test::num_mutations() / 100);
}

TEST(DecodeMutation, Jpeg) {
  const Image image = test::gradient(12, 20);
  expect_no_crash(test::encode_jpeg(image));
  expect_no_crash(test::encode_jpeg(image, {.progressive = true}));
  expect_no_crash(test::encode_jpeg(image, {.cmyk = true}));
  expect_no_crash(test::encode_jpeg(image, {.gray = true, .restart_rows = 1}));
}

TEST(DecodeMutation, Png) {
  expect_no_crash(test::encode_png(test::gradient(12, 20)));
  expect_no_crash(test::encode_png(test::gradient(12, 20), 16, true));
}

TEST(DecodeMutation, Bmp) {
  expect_no_crash(test::encode_bmp(test::gradient(3, 5)));
}

TEST(DecodeMutation, Pnm) {
  expect_no_crash(test::encode_ppm(test::gradient(3, 5)));
}

TEST(DecodeMutation, Tiff) {
  expect_no_crash(test::encode_tiff(test::gradient(3, 5)));
  expect_no_crash(test::encode_tiff(test::gradient(3, 5), 16));
}

TEST(DecodeMutation, WebP) {
  expect_no_crash(test::encode_webp_lossless(test::gradient(12, 20)));
}

TEST(DecodeMutation, Heic) {
  if (!codec::heic_fault().empty()) GTEST_SKIP() << codec::heic_fault();
  expect_no_crash(read_file(KILN_SOURCE_DIR "/tests/fuzz/seeds/heic/grid.heic"));
}

}  // namespace
}  // namespace kiln
