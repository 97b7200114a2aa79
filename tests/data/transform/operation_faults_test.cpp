#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/transform/operations.h"

namespace kiln {
namespace {

std::vector<std::string> faults_of(const std::string& json) {
  Problems problems;
  (void)TransformChain::parse(json, "dir/_transforms.json", problems);
  std::vector<std::string> messages;
  for (const Error& error : problems.errors()) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidTransformationDirectory);
    EXPECT_NE(error.message().find("dir/_transforms.json"), std::string::npos);
    messages.push_back(error.message());
  }
  return messages;
}

void expect_fault(const std::string& json, const std::string& words) {
  const std::vector<std::string> faults = faults_of(json);
  ASSERT_EQ(faults.size(), 1u) << json;
  EXPECT_NE(faults[0].find(words), std::string::npos) << faults[0];
}

TEST(OperationFaults, AreFoundTogether) {
  const auto faults = faults_of(
      R"([["Resise",3],["Pad",{"padding":"x","fil":3}],["FiveCrop",3],["CenterCrop",0]])");
  ASSERT_EQ(faults.size(), 5u);
  EXPECT_NE(faults[0].find("operation 1, Resise: unknown operation. Did you mean "
                           "'Resize'?"),
            std::string::npos);
  EXPECT_NE(faults[1].find("no argument 'fil'"), std::string::npos);
  EXPECT_NE(faults[2].find("padding is \"x\""), std::string::npos);
  EXPECT_NE(faults[3].find("FiveCrop: it produces several images"), std::string::npos);
  EXPECT_NE(faults[4].find("size is 0"), std::string::npos);
}

TEST(OperationFaults, NameWhatIsNoList) {
  for (const std::string json : {"", "{}", "3", "[[\"Resize\"]]", "[\"Resize\", 3]", "[[3, 4]]",
                                 "[[\"Resize\", 4, 5]]", "[null]"})
    EXPECT_FALSE(faults_of(json).empty()) << json;
  std::string many = "[[\"Pad\",0]";
  for (int i = 0; i < 100; ++i) many += ",[\"Pad\",0]";
  expect_fault(many + "]", "more than 100 operations");
  expect_fault(std::string(70000, ' ') + "[]", "larger than 64 KiB");
}

TEST(OperationFaults, NameTheArgument) {
  expect_fault(R"([["Resize",{}]])", "'size' is missing");
  expect_fault(R"([["Resize",{"size":9,"max_size":9}]])", "max_size is 9");
  expect_fault(R"([["Resize",{"size":[9,9],"max_size":10}]])", "max_size is 10");
  expect_fault(R"([["Resize",true]])", "its arguments are true");
  expect_fault(R"([["Resize",[true]]])", "size is true");
  expect_fault(R"([["Resize",20000]])", "size is 20000");  // 400 million pixels
  expect_fault(R"([["Resize",{"size":3,"interpolation":"bilinear"}]])", "interpolation is");
  expect_fault(R"([["CenterCrop",[1,2,3]]])", "3 arguments");
  expect_fault(R"([["CenterCrop",[[1,2,3]]]])", "size is [1,2,3]");
  expect_fault(R"([["CenterCrop",{"size":null}]])", "size is null");
  expect_fault(R"([["ColorJitter",{"hue":[-0.6,0]}]])", "hue is");
  expect_fault(R"([["RandomHorizontalFlip",1.5]])", "p is 1.5");
  expect_fault(R"([["RandomAffine",{"degrees":[9,1]}]])", "degrees is [9,1]");
  expect_fault(R"([["RandomRotation",{"degrees":9,"interpolation":4}]])", "interpolation is 4");
  expect_fault(R"([["Grayscale",2]])", "num_output_channels is 2");
  expect_fault(R"([["Grayscale",{}],["Pad",{"padding":1,"fill":[1,2,3]}]])", "fill is [1,2,3]");
  expect_fault(R"([["Pad",{"padding":1,"padding":2}]])", "'padding' twice");
}

TEST(OperationFaults, TensorsBeginAndEnd) {
  expect_fault(R"([["ToTensor",{}]])", "ends with a tensor");
  expect_fault(R"([["ToPILImage",{}]])", "put ToTensor before it");
  expect_fault(R"([["RandomErasing",{}],["ToPILImage",{}]])", "put ToTensor before it");
  expect_fault(R"([["ToTensor",{}],["Resize",3],["ToTensor",{}],["ToPILImage",{}]])",
               "put it before ToTensor");
  EXPECT_TRUE(
      faults_of(R"([["ToTensor",{}],["Normalize",[[0.5],[0.5]]],["ToPILImage","RGB"]])").size() ==
      1);
  EXPECT_TRUE(faults_of(R"([["ToTensor",{}],["RandomErasing",0.5],["ToPILImage",{}]])").empty());
}

// What depends on the image is a fault of that image.
TEST(OperationFaults, ImagesMayNotFit) {
  const auto applied = [](const std::string& json) {
    Problems problems;
    const auto chain = TransformChain::parse(json, "_transforms.json", problems);
    problems.throw_if_any();
    Image image{{5, 6}, std::vector<std::uint8_t>(5 * 6 * 3)};
    WorkImage memory;
    chain.apply(image, {}, memory);
    return image.size;
  };
  EXPECT_THROW(applied(R"([["RandomCrop",6]])"), ImageFault);
  EXPECT_EQ(applied(R"([["RandomCrop",{"size":6,"pad_if_needed":true}]])"), (ImageSize{6, 6}));
  EXPECT_THROW(applied(R"([["Pad",-3]])"), ImageFault);
  EXPECT_THROW(applied(R"([["Pad",100000]])"), ImageFault);
  EXPECT_THROW(applied(R"([["Pad",{"padding":[-9,0,99,0],"padding_mode":"edge"}]])"), ImageFault);
  EXPECT_THROW(applied(R"([["Resize",[1,100000]],["Resize",99]])"), ImageFault);
  EXPECT_EQ(applied(R"([["Resize",[1,100000]],["Resize",{"size":[9,1]}]])"), (ImageSize{9, 1}));
}

}  // namespace
}  // namespace kiln
