#include "predict/shortcuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "record/run_summary.h"

namespace kiln {
namespace {

// Images of two labels, one of `every` in the second, whose facts say nothing.
struct Drawn {
  explicit Drawn(std::size_t count, std::size_t every = 2) {
    RandomSequence random({7, count});
    for (std::size_t i = 0; i < count; ++i) {
      labels.push_back(i % every == 0 ? 1 : 0);
      ImageFacts& numbers = facts.emplace_back();
      for (int k = 0; k < 8; ++k) numbers.push_back(static_cast<float>(random.below(500)));
    }
  }
  std::vector<Shortcut> shortcuts() const { return shortcuts_of(facts, labels, groups); }

  std::vector<ImageFacts> facts;
  std::vector<std::int32_t> labels;
  std::vector<std::uint32_t> groups = {};
};

TEST(Shortcuts, AreNoneWhereFactsSayNothing) {
  for (const std::size_t count : {0U, 1U, 2U, 9U, 300U, 2000U})
    EXPECT_TRUE(Drawn(count).shortcuts().empty()) << count;
  EXPECT_TRUE(Drawn(500, 500).shortcuts().empty()) << "a class of one image";
  EXPECT_TRUE(Drawn(500, 501).shortcuts().size() == 0) << "and of one";
}

TEST(Shortcuts, NameTheFactThatTells) {
  Drawn images(300, 3);
  for (std::size_t i = 0; i < 300; ++i)
    images.facts[i][0] = images.labels[i] == 1 || i < 30 ? 640 : 480;
  const std::vector<Shortcut> found = images.shortcuts();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].fact, "width");
  EXPECT_EQ(found[0].told, 280) << "20 of the first 30 have the other label";
  EXPECT_EQ(found[0].largest, 200);
  EXPECT_EQ(found[0].images, 300);
  EXPECT_FALSE(found[1].is_alone);
  EXPECT_EQ(found[1].fact, "width, height, file size, file type, brightness, color");
}

// Neither side tells the shape, and one question does not.
TEST(Shortcuts, AreFoundInFactsTogether) {
  Drawn images(800);
  for (std::size_t i = 0; i < 800; ++i) {
    const bool is_wide = i % 4 < 2;
    images.facts[i] = {is_wide ? 640.F : 480.F, (is_wide == (i % 2 == 0)) ? 480.F : 640.F, 9, 1};
    images.facts[i][0] += i % 16 == 0 ? 1 : 0;  // without a beginning, no question parts anything
  }
  const std::vector<Shortcut> found = images.shortcuts();
  ASSERT_FALSE(found.empty());
  EXPECT_FALSE(found.back().is_alone);
  EXPECT_EQ(found.back().fact, "width, height, file size, file type");
  EXPECT_EQ(found.back().told, 800);
}

TEST(Shortcuts, CountOneImageOfAGroup) {
  Drawn images(400);
  for (std::size_t i = 0; i < 400; ++i) {
    images.facts[i][3] = images.labels[i] == 1 ? 1 : 2;
    images.groups.push_back(static_cast<std::uint32_t>(i % 8));
  }
  EXPECT_TRUE(images.shortcuts().empty()) << "eight images show nothing";
  images.groups.clear();
  ASSERT_FALSE(images.shortcuts().empty());
  EXPECT_EQ(images.shortcuts()[0].fact, "file type");
  EXPECT_EQ(images.shortcuts()[0].told, 400);
}

TEST(Shortcuts, LeaveOutImagesWithoutFactsOrLabel) {
  Drawn images(300);
  for (std::size_t i = 0; i < 300; ++i) images.facts[i][4] = images.labels[i] == 1 ? 0.9F : 0.1F;
  images.facts[4].clear();
  images.labels[5] = -1;
  ASSERT_FALSE(images.shortcuts().empty());
  EXPECT_EQ(images.shortcuts()[0].fact, "brightness");
  EXPECT_EQ(images.shortcuts()[0].images, 298);
}

TEST(Shortcuts, AreToldByTypeSizeBrightnessAndColor) {
  const auto facts_of_color = [](std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
    Image image{{2, 3}, {}};
    for (int i = 0; i < 6; ++i) image.pixels.insert(image.pixels.end(), {red, green, blue});
    return image_facts(encode_png(image), image, {20, 30});
  };
  const ImageFacts gray = facts_of_color(100, 100, 100), red = facts_of_color(200, 40, 40);
  EXPECT_EQ(gray.size(), 8U);
  EXPECT_EQ(gray[0], 30) << "the width as stored";
  EXPECT_EQ(gray[1], 20);
  EXPECT_FLOAT_EQ(gray[4], 100);
  EXPECT_EQ(std::vector(gray.begin() + 5, gray.end()), std::vector<float>({0, 0, 0}));
  EXPECT_FLOAT_EQ(red[4], 0.299F * 200 + 0.701F * 40);
  EXPECT_EQ(std::vector(red.begin() + 5, red.end()), std::vector<float>({160, 0, 160}));
  EXPECT_EQ(gray[3], red[3]);
  const Image image{{1, 1}, {1, 2, 3}};
  EXPECT_NE(file_facts(encode_jpeg(image, 90), 9, {1, 1})[3], gray[3]);
}

TEST(Shortcuts, CountAboveHalfOfWhatTheModelGains) {
  const std::vector<Shortcut> found = {{"width", true, 80, 50, 100},
                                       {"height", true, 70, 50, 100},
                                       {"width, height", false, 85, 50, 100}};
  EXPECT_EQ(telling(found, 0.3).size(), 2U) << "not the two together, as each does alone";
  EXPECT_EQ(telling(found, 0.5).size(), 1U);
  ASSERT_EQ(telling(found, 0.65).size(), 1U);
  EXPECT_EQ(telling(found, 0.65)[0].fact, "width, height");
  EXPECT_TRUE(telling(found, 0.75).empty());
  EXPECT_EQ(telling(found, -0.1).size(), 2U);
  const std::string text = shortcuts_text(telling(found, 0.3), 0.8);
  for (const char* part : {"width alone tells 80.0 %", "height", "50.0 %", "model: 80.0 %", "100"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace kiln
