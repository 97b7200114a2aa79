#include "data/transform/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln {
namespace {

TransformChain chain_of(const std::string& json) {
  Problems problems;
  TransformChain chain = TransformChain::parse(json, "_transforms.json", problems);
  problems.throw_if_any();
  return chain;
}

// Red tells the column, green the row.
Image picture(ImageSize size) {
  Image image{size, {}};
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x)
      for (const int value : {x, y, 7}) image.pixels.push_back(static_cast<std::uint8_t>(value));
  return image;
}

Image applied(const std::string& json, Image image, std::uint64_t key = 0) {
  WorkImage memory;
  chain_of(json).apply(image, {.seed = 3, .image = key}, memory);
  return image;
}

std::array<int, 3> pixel(const Image& image, int y, int x) {
  const auto at = static_cast<std::size_t>(3 * (y * image.size.width + x));
  return {image.pixels.at(at), image.pixels.at(at + 1), image.pixels.at(at + 2)};
}

using Rgb = std::array<int, 3>;

TEST(Operations, KeepTheTextOfTheOriginal) {
  const std::string golden =
      "[\n  [\n    \"Resize\",\n    40\n  ],\n  [\n    \"CenterCrop\",\n    32\n  ],\n"
      "  [\n    \"RandomHorizontalFlip\",\n    {}\n  ]\n]";
  EXPECT_EQ(chain_of(golden).to_json(), golden);
  EXPECT_EQ(chain_of(R"([["Pad",[1,2]],["Resize",{"size":[3,4]}]])").to_json(),
            "[\n  [\n    \"Pad\",\n    [\n      1,\n      2\n    ]\n  ],\n  [\n    \"Resize\",\n"
            "    {\n      \"size\": [\n        3,\n        4\n      ]\n    }\n  ]\n]");
  EXPECT_EQ(chain_of("[]").to_json(), "[]");
}

TEST(Operations, ForInferenceDropWhatBeginsWithRandom) {
  const TransformChain chain = chain_of(
      R"([["RandomResizedCrop",9],["Resize",8],["ColorJitter",{}],["RandomVerticalFlip",{}]])");
  EXPECT_TRUE(chain.is_random());
  const TransformChain kept = chain.for_inference();
  EXPECT_FALSE(kept.is_random());
  EXPECT_EQ(kept.to_json(), chain_of(R"([["Resize",8],["ColorJitter",{}]])").to_json());
  EXPECT_TRUE(chain_of(R"([["ColorJitter",0.1]])").for_inference().is_random());
}

TEST(Operations, TellTheirSize) {
  const auto size_of = [](const std::string& json, std::optional<ImageSize> whole = {}) {
    return chain_of(json).output_size(whole);
  };
  EXPECT_EQ(size_of(R"([["Resize",8],["CenterCrop",6]])"), (ImageSize{6, 6}));
  EXPECT_EQ(size_of(R"([["Resize",[8,9]],["Pad",[[1,2]]]])"), (ImageSize{12, 11}));
  EXPECT_EQ(size_of(R"([["Resize",8]])"), std::nullopt);
  EXPECT_EQ(size_of(R"([["Resize",8]])", ImageSize{20, 31}), (ImageSize{8, 12}));
  EXPECT_EQ(size_of(R"([["RandomResizedCrop",5]])"), (ImageSize{5, 5}));
  EXPECT_EQ(size_of(R"([["RandomRotation",{"degrees":9,"expand":true}]])", ImageSize{4, 4}),
            std::nullopt);
  EXPECT_EQ(size_of("[]", ImageSize{4, 5}), (ImageSize{4, 5}));
  EXPECT_THROW(size_of(R"([["RandomCrop",6]])", ImageSize{4, 9}), ImageFault);
}

TEST(Operations, ResizeAsTheyAreAsked) {
  const Image image = picture({20, 30});
  EXPECT_EQ(applied(R"([["Resize",10]])", image).size, (ImageSize{10, 15}));
  EXPECT_EQ(applied(R"([["Resize",[10,12]]])", image).size, (ImageSize{10, 12}));
  EXPECT_EQ(applied(R"([["Resize",[10,3]]])", image).size, (ImageSize{10, 15}));  // 3: bicubic
  EXPECT_EQ(applied(R"([["Resize",{"size":10,"max_size":12}]])", image).size, (ImageSize{8, 12}));
  EXPECT_EQ(applied(R"([["Resize",20]])", image).pixels, image.pixels);
}

TEST(Operations, CropTheCenterOrPadItWithBlack) {
  const Image image = picture({20, 31});
  EXPECT_EQ(pixel(applied(R"([["CenterCrop",10]])", image), 0, 0), (Rgb{10, 5, 7}));  // 10.5
  const Image padded = applied(R"([["CenterCrop",[4,34]]])", image);
  EXPECT_EQ(pixel(padded, 0, 0), (Rgb{0, 0, 0}));
  EXPECT_EQ(pixel(padded, 0, 1), (Rgb{0, 8, 7}));
  EXPECT_EQ(pixel(padded, 3, 32), (Rgb{0, 0, 0}));
}

TEST(Operations, PadInFourWays) {
  const Image image = picture({3, 4});
  const auto corner = [&](const std::string& mode) {
    const std::string json = R"([["Pad",{"padding":2,"fill":[9,8,6],"padding_mode":")" + mode;
    return pixel(applied(json + "\"}]]", image), 0, 0);
  };
  EXPECT_EQ(corner("constant"), (Rgb{9, 8, 6}));
  EXPECT_EQ(corner("edge"), (Rgb{0, 0, 7}));
  EXPECT_EQ(corner("reflect"), (Rgb{2, 2, 7}));
  EXPECT_EQ(corner("symmetric"), (Rgb{1, 1, 7}));
  EXPECT_EQ(applied(R"([["Pad",[[-1,0,2,-1]]]])", image).size, (ImageSize{2, 5}));
}

TEST(Operations, DrawByTheKeyAlone) {
  const std::string json =
      R"([["RandomCrop",9],["ColorJitter",[0.4,0.4,0.4,0.1]],["RandomAffine",{"degrees":20}],
          ["RandomPerspective",1],["RandomErasing",1]])";
  const std::string usable = R"([["RandomCrop",9],["ColorJitter",[0.4,0.4,0.4,0.1]],
      ["RandomAffine",{"degrees":20,"translate":[0.1,0.1]}],["RandomPerspective",{"p":1}]])";
  EXPECT_THROW(chain_of(json), Problems);
  const Image image = picture({20, 30});
  EXPECT_EQ(applied(usable, image, 5).pixels, applied(usable, image, 5).pixels);
  EXPECT_NE(applied(usable, image, 5).pixels, applied(usable, image, 6).pixels);
  WorkImage used;
  Image first = picture({50, 60}), second = image;
  chain_of(usable).apply(first, {.seed = 3, .image = 9}, used);
  chain_of(usable).apply(second, {.seed = 3, .image = 5}, used);
  EXPECT_EQ(second.pixels, applied(usable, image, 5).pixels);
}

// One more operation changes no draw of those before it.
TEST(Operations, HaveDrawsOfTheirOwn) {
  const Image image = picture({9, 9});
  for (std::uint64_t key = 0; key < 20; ++key) {
    const Image alone = applied(R"([["RandomHorizontalFlip",{}]])", image, key);
    const Image turned =
        applied(R"([["RandomHorizontalFlip",{}],["RandomRotation",[180,180]]])", image, key);
    EXPECT_TRUE(
        std::equal(alone.pixels.begin(), alone.pixels.begin() + 2, turned.pixels.end() - 3));
  }
}

TEST(Operations, DrawAsOftenAsTheirProbability) {
  const Image image = picture({4, 5});
  const auto share = [&](const std::string& operation) {
    int changed = 0;
    for (std::uint64_t key = 0; key < 4000; ++key)
      changed += applied("[" + operation + "]", image, key).pixels != image.pixels;
    return changed / 4000.0;
  };
  EXPECT_NEAR(share(R"(["RandomHorizontalFlip",{}])"), 0.5, 0.03);
  EXPECT_NEAR(share(R"(["RandomVerticalFlip",0.2])"), 0.2, 0.03);
  EXPECT_NEAR(share(R"(["RandomGrayscale",{}])"), 0.1, 0.02);
}

TEST(Operations, CropEverywhereAlike) {
  const Image image = picture({12, 14});
  std::map<int, int> tops, lefts;
  for (std::uint64_t key = 0; key < 3000; ++key) {
    const Rgb corner = pixel(applied(R"([["RandomCrop",10]])", image, key), 0, 0);
    ++lefts[corner[0]];
    ++tops[corner[1]];
  }
  ASSERT_EQ(tops.size(), 3u);
  ASSERT_EQ(lefts.size(), 5u);
  for (const auto& [top, count] : tops) EXPECT_NEAR(count / 3000.0, 1 / 3.0, 0.05) << top;
  for (const auto& [left, count] : lefts) EXPECT_NEAR(count / 3000.0, 0.2, 0.04) << left;
}

// A white image times a factor is the factor.
TEST(Operations, JitterWithinTheirRange) {
  const Image white{{1, 1}, {200, 200, 200}};
  double least = 9, most = 0, sum = 0;
  for (std::uint64_t key = 0; key < 3000; ++key) {
    const double factor =
        applied(R"([["ColorJitter",{"brightness":0.25}]])", white, key).pixels[0] / 200.0;
    least = std::min(least, factor);
    most = std::max(most, factor);
    sum += factor;
  }
  EXPECT_NEAR(least, 0.75, 0.01);
  EXPECT_NEAR(most, 1.25, 0.01);
  EXPECT_NEAR(sum / 3000, 1.0, 0.02);
}

// The place of one white pixel tells the angle and the translation.
TEST(Operations, MoveWithinTheirRange) {
  Image image{{101, 101}, std::vector<std::uint8_t>(std::size_t{101} * 101 * 3)};
  for (int y = 48; y < 53; ++y)
    for (int x = 48; x < 53; ++x) image.pixels[static_cast<std::size_t>(3 * (y * 101 + x))] = 255;
  std::array<double, 2> least{999, 999}, most{-999, -999};
  for (std::uint64_t key = 0; key < 600; ++key) {
    const Image moved =
        applied(R"([["RandomAffine",{"degrees":0,"translate":[0.2,0.3]}]])", image, key);
    std::array<double, 2> sum{};
    int count = 0;
    for (int i = 0; i < 101 * 101; ++i) {
      if (moved.pixels[static_cast<std::size_t>(3 * i)] == 0) continue;
      sum[0] += i % 101 - 50;
      sum[1] += i / 101 - 50;
      ++count;
    }
    ASSERT_EQ(count, 25);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      least[axis] = std::min(least[axis], sum[axis] / count);
      most[axis] = std::max(most[axis], sum[axis] / count);
    }
  }
  for (const double end : {-least[0], most[0]}) EXPECT_NEAR(end, 20, 1.01);
  for (const double end : {-least[1], most[1]}) EXPECT_NEAR(end, 30, 1.01);
}

}  // namespace
}  // namespace kiln
