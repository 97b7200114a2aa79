// Pixels depend on the file alone, not on what its memory held before: whole files, truncated ones,
// damaged ones, and parts of them, of every form of the fuzzers' seeds.
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/mutate.h"
#include "data/image/image.h"

namespace kiln {
namespace {

struct Decoded {
  std::string damage;
  Region region;
  std::vector<std::uint8_t> pixels;
  bool operator==(const Decoded&) const = default;
};

// Leaves `byte` in the memory that the next functions' variables get.
__attribute__((noinline)) void fill_stack(std::uint8_t byte) {
  volatile std::uint8_t memory[16 << 10];
  for (volatile std::uint8_t& place : memory) place = byte;
}

// In memory whose bytes are `before`, also that of libraries (with glibc's allocator). Empty if
// refused.
std::optional<Decoded> decode(const std::string& bytes, const ChoosePart& choose,
                              std::uint8_t before) {
  constexpr std::size_t kRoom = std::size_t{64} << 10;
  ImagePart part;
  part.pixels.assign(kRoom, before);
  mallopt(M_PERTURB, before ^ 0xff);
  std::optional<Decoded> result;
  try {
    fill_stack(before);
    decode_part(bytes, Exif::kIgnore, choose, part);
    const auto count = static_cast<std::size_t>(part.region.size.height) *
                       static_cast<std::size_t>(part.region.size.width) * 3;
    result = {part.damage, part.region, {part.pixels.data(), part.pixels.data() + count}};
  } catch (const ImageFault&) {
  }
  mallopt(M_PERTURB, 0);
  return result;
}

void expect_same(const std::string& bytes, const std::string& name) {
  try {
    constexpr long long kManyPixels = 1 << 16;  // a damaged header
    const ImageSize size = read_image_size(bytes, Exif::kIgnore);
    if (1LL * size.height * size.width > kManyPixels) return;
  } catch (const ImageFault&) {
    return;
  }
  const auto whole = [](ImageSize size) { return WantedPart{{0, 0, size}}; };
  const auto half = [](ImageSize size) {
    return WantedPart{
        {size.height / 2, size.width / 2, {(size.height + 1) / 2, (size.width + 1) / 2}}, 8};
  };
  for (const ChoosePart& choose : {ChoosePart(whole), ChoosePart(half)})
    ASSERT_EQ(decode(bytes, choose, 0x01), decode(bytes, choose, 0xfe)) << name;
}

TEST(UnsetPixels, NoFileShowsWhatMemoryHeld) {
  constexpr unsigned long kMutations = 60;
  const std::filesystem::path seeds = KILN_SOURCE_DIR "/tests/fuzz/seeds";
  std::size_t files = 0;
  for (const char* kind : {"jpeg", "png", "bmp", "pnm", "tiff", "webp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(seeds / kind)) {
      const std::string bytes = read_file(entry.path().string()), name = entry.path().string();
      for (std::size_t length = 0; length <= bytes.size(); ++length)
        expect_same(bytes.substr(0, length), name + ", bytes: " + std::to_string(length));
      std::mt19937 draw(1);
      for (unsigned long i = 0; i < kMutations; ++i)
        expect_same(test::mutate(bytes, draw), name + ", damaged copy " + std::to_string(i));
      ++files;
    }
  }
  EXPECT_GT(files, 40U);
}

}  // namespace
}  // namespace kiln
