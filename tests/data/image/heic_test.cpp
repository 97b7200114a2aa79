// HEIC photos: tests/flow/test_heic.py compares them with libheif's own tool.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/mutate.h"
#include "data/image/codec.h"
#include "data/image/unread_kind.h"

namespace kiln {
namespace {

// photo: as libheif's encoder writes it, 64 x 48 pixels of a tile of 64 x 64. turned: such a tile
// cropped to 40 x 30 and turned. grid: four of them, cropped to 100 x 90 by the grid, and turned.
std::string seed(const std::string& name) {
  return read_file(std::filesystem::path(KILN_SOURCE_DIR) / "tests/fuzz/seeds/heic" /
                   (name + ".heic"));
}

constexpr std::pair<const char*, ImageSize> kSeeds[] = {
    {"photo", {48, 64}}, {"turned", {40, 30}}, {"grid", {100, 90}}};

// Where the box "meta" ends, which follows "ftyp".
std::size_t end_of_meta(const std::string& bytes) {
  const std::size_t begin = codec::from_big(bytes, 0, 4);
  EXPECT_EQ(bytes.substr(begin + 4, 4), "meta");
  return begin + codec::from_big(bytes, begin, 4);
}

TEST(HeicSize, IsReadFromTheBeginningWithoutLibheif) {
  for (const auto& [name, size] : kSeeds) {
    const std::string bytes = seed(name);
    EXPECT_TRUE(is_heic(bytes));
    EXPECT_EQ(codec::read_heic_size(bytes), size) << name;
    const std::size_t enough = end_of_meta(bytes);
    EXPECT_EQ(codec::read_heic_size(bytes.substr(0, enough)), size) << name;
  }
}

TEST(HeicSize, IsRefusedWhereTheHeaderEndsEarly) {
  for (const auto& [name, size] : kSeeds) {
    const std::string bytes = seed(name);
    const std::size_t last = bytes.find("ipma") + 4;
    ASSERT_LT(last, end_of_meta(bytes));
    for (std::size_t length = 0; length < last; ++length)
      EXPECT_THROW(codec::read_heic_size(std::string_view(bytes).substr(0, length)), ImageFault)
          << name << " " << length;
  }
}

TEST(HeicSize, IsRefusedIfTooLarge) {
  std::string bytes = seed("photo");
  const std::size_t width = bytes.rfind("ispe") + 8;  // of the whole photo
  ASSERT_EQ(codec::from_big(bytes, width, 4), 64U);
  bytes[width] = 1;  // and 16,777,216 more
  try {
    codec::read_heic_size(bytes);
    FAIL();
  } catch (const ImageFault& fault) {
    EXPECT_TRUE(std::string(fault.what()).starts_with("too large: 16777280 x 48")) << fault.what();
  }
}

TEST(HeicSize, SurvivesAnyBytes) {
  const auto refused = test::count_refused<ImageFault>(
      seed("grid"), [](const std::string& bytes) { codec::read_heic_size(bytes); });
  EXPECT_GT(refused, test::num_mutations() / 100);
}

TEST(Heic, IsAFormatOnlyWhereItCanBeDecoded) {
  const bool can_decode = codec::heic_fault().empty();
  const std::string bytes = seed("photo");
  EXPECT_EQ(image_kind(bytes), can_decode ? "HEIC" : "");
  EXPECT_EQ(read_orientation(bytes), 1);
  if (can_decode)
    EXPECT_EQ(decode_image(bytes, Exif::kApply).image.size, (ImageSize{48, 64}));
  else
    EXPECT_THROW(decode_image(bytes, Exif::kApply), ImageFault);
}

}  // namespace
}  // namespace kiln
