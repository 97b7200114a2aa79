// Heat maps on images, the names of their files, and the folders that may hold them.
#include "predict/explanations.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include "base/text.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

int brightness(const Image& image, std::size_t pixel) {
  const std::uint8_t* rgb = image.pixels.data() + 3 * pixel;
  return 299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2];
}

Image gray_image(ImageSize size, std::uint8_t value = 128) {
  return {size, std::vector<std::uint8_t>(static_cast<std::size_t>(size.height) *
                                              static_cast<std::size_t>(size.width) * 3,
                                          value)};
}

TEST(HeatMap, IsBrighterWhereMoreIsSeen) {
  const Image shown = with_heat_map(gray_image({1, 101}), at::linspace(0, 1, 101).view({1, -1}));
  EXPECT_EQ(shown.size, (ImageSize{1, 101}));
  for (std::size_t i = 1; i < 101; ++i)
    EXPECT_GE(brightness(shown, i), brightness(shown, i - 1) - 1000) << i;  // rounded to 8 bits
  const std::vector<int> first = {98, 65, 106}, last = {191, 180, 83};  // half gray, half viridis
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(shown.pixels[i], first[i], 1);
    EXPECT_NEAR(shown.pixels[shown.pixels.size() - 3 + i], last[i], 1);
  }
}

TEST(HeatMap, IsEnlargedSmoothlyAndStaysUpright) {
  const at::Tensor map = torch::tensor({{0.0F, 1.0F}, {0.0F, 0.0F}});
  const Image shown = with_heat_map(gray_image({4, 6}), map);
  EXPECT_GT(brightness(shown, 5), brightness(shown, 0));   // top right, top left
  EXPECT_GT(brightness(shown, 5), brightness(shown, 23));  // bottom right
  EXPECT_GT(brightness(shown, 3), brightness(shown, 2));   // between the two, in steps
  EXPECT_GT(brightness(shown, 4), brightness(shown, 3));
  EXPECT_EQ(brightness(shown, 18), brightness(shown, 23));  // the lower row is even
}

TEST(HeatMap, ShowsTheImageInGray) {
  Image image = gray_image({1, 2});
  image.pixels = {255, 0, 0, 255, 255, 255};
  const Image shown = with_heat_map(image, at::zeros({1, 1}));
  EXPECT_LT(brightness(shown, 0), brightness(shown, 1));
  EXPECT_EQ(shown.pixels[0], (76 + 68) / 2);
}

TEST(ExplanationName, HasNumberAndNameOfTheImage) {
  EXPECT_EQ(explanation_name(7, "a/photo.png"), "007-photo.jpg");
  EXPECT_EQ(explanation_name(100, "two words.v2.tar.jpeg"), "100-two_words.v2.tar.jpg");
  EXPECT_EQ(explanation_name(1, "日本.png"), "001-日本.jpg");
}

TEST(ExplanationName, OfAnyPathIsOneNameInTheFolder) {
  const std::string longest(5000, 'x');
  for (const std::string& path :
       {std::string("../../etc/passwd"), std::string(".."), std::string(""), std::string("/"),
        std::string("a\\..\\b.png"), std::string("c:evil.png"), std::string("line\nbreak.png"),
        std::string("zero\0byte.png", 13), std::string("\xff\xfe.png"), std::string("-rf *.png"),
        std::string("$(touch x).png"), longest}) {
    const std::string name = explanation_name(3, path);
    EXPECT_TRUE(name.starts_with("003-") && name.ends_with(".jpg")) << name;
    EXPECT_EQ(name.find_first_of("/\\:*$()\n '\""), std::string::npos) << name;
    EXPECT_EQ(name.find('\0'), std::string::npos);
    EXPECT_TRUE(is_utf8(name)) << name;
    EXPECT_LT(name.size(), 120u);
  }
}

TEST(ExplanationFolder, IsNewOrHoldsEarlierExplanationsAlone) {
  const ScratchFolder scratch;
  ExplanationFolder(scratch / "new");
  EXPECT_TRUE(fs::is_directory(scratch / "new"));
  const std::string header = "path,label,confidence,file\r\n";
  scratch.put("earlier/explanations.csv", header + "a.png,cat,0.5,001-a.jpg\r\n");
  scratch.put("earlier/001-a.jpg");
  scratch.put("earlier/.kiln-tmp-002-b.jpg-1");
  ExplanationFolder(scratch / "earlier");
  EXPECT_TRUE(fs::exists(scratch / "earlier/001-a.jpg"));  // until there are others
  EXPECT_FALSE(fs::exists(scratch / "earlier/.kiln-tmp-002-b.jpg-1"));

  scratch.put("several/model-1/explanations.csv", header + "a.png,cat,0.5,001-a.jpg\r\n");
  scratch.put("several/model-1/001-a.jpg");
  scratch.put("several/model-1/.kiln-tmp-002-b.jpg-1");
  scratch.put("several/model-2/explanations.csv", header);
  ExplanationFolder(scratch / "several");
  EXPECT_TRUE(fs::exists(scratch / "several/model-1/001-a.jpg"));
  EXPECT_FALSE(fs::exists(scratch / "several/model-1/.kiln-tmp-002-b.jpg-1"));

  scratch.put("photos/a.jpg");
  scratch.put("pictures/001-a.jpg");
  scratch.put("table/explanations.csv", "path,class\r\n");
  scratch.put("mixed/explanations.csv", header);
  scratch.put("mixed/notes.txt");
  scratch.put("folders/explanations.csv", header);
  scratch.put("folders/001-a.jpg/b.jpg");
  scratch.put("models/model-1/_meta.yaml");
  scratch.put("deep/model-1/model-2/explanations.csv", header);
  fs::create_directory(scratch / "linked");
  fs::create_directory_symlink(scratch / "several/model-1", scratch / "linked/model-1");
  for (const char* name :
       {"photos", "pictures", "table", "mixed", "folders", "models", "deep", "linked"})
    EXPECT_EQ(error_of([&] { ExplanationFolder(scratch / name); }).code(),
              ErrorCode::kFailedToWriteOutputs)
        << name;
}

}  // namespace
}  // namespace kiln
