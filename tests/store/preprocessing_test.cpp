#include "store/model_spec.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

const Preprocessing kResized{Exif::kApply, 224,   192,
                             256,          false, {{0.485, 0.456, 0.406}, {0.229, 0.1 + 0.2, 1}}};

// The error for kResized with `from` replaced by `to`.
std::string fault_of(const std::string& from, const std::string& to) {
  std::string json = format_preprocessing(kResized);
  EXPECT_NE(json.find(from), std::string::npos) << from;
  json.replace(json.find(from), from.size(), to);
  try {
    parse_preprocessing(json, "folder/preprocessing.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    EXPECT_NE(error.message().find("'folder/preprocessing.json'"), std::string::npos);
    return error.message();
  }
  return "no fault";
}

void expect_fault(const std::string& from, const std::string& to, const std::string& part) {
  const std::string fault = fault_of(from, to);
  EXPECT_NE(fault.find(part), std::string::npos) << to << ": " << fault;
}

TEST(PreprocessingFile, ReadsWhatItWrites) {
  for (const Preprocessing& written :
       {kResized, Preprocessing{Exif::kIgnore, 32, 48, 0, true, {}},
        Preprocessing{
            Exif::kApply, 32, 32, 0, true, {}, R"([["Resize",40],["Pad",[1,2]],["Grayscale",{}]])"},
        Preprocessing{.height = 32, .width = 48, .normalization = {}, .fit = Fit::kStretch},
        Preprocessing{.height = 32,
        .width = 48,
        .normalization = {},
        .fit = Fit::kPad,
        .fill = {0, 7, 255}}}) {
    EXPECT_EQ(parse_preprocessing(format_preprocessing(written), "x"), written);
  }
}

TEST(PreprocessingFile, HasTheFormatOfItsHeader) {
  const std::string json = R"({"version": 1, "resize_short_side": 256, "keep_exact_size": true,
    "input_size": [224, 224], "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]})";
  EXPECT_EQ(parse_preprocessing(json, "x"),
            (Preprocessing{Exif::kIgnore, 224, 224, 256, true, {}}));
}

TEST(PreprocessingFile, FaultsNameTheKeyAndWhatWasFound) {
  expect_fault("\"version\": 1", "\"version\": 3", "its version is 3");
  expect_fault("\"version\": 1", "\"version\": 1, \"fit\": \"stretch\"",
               "'resize_short_side' is 256 instead of null");
  expect_fault("\"version\": 1", "\"version\": 1, \"fit\": \"crop\"", "'fit' is \"crop\"");
  expect_fault("\"version\": 1", "\"version\": 2", "'transforms' is missing");
  expect_fault("\"version\": 1,", "\"version\": 2, \"transforms\": [],",
               "'resize_short_side' is 256 instead of null");
  expect_fault("\"version\": 1,", "\"version\": 2, \"transforms\": {},", "'transforms' is {}");
  expect_fault("\"version\": 1,", "\"version\": 1, \"transforms\": [],", "'transforms' is unknown");
  expect_fault("\"version\": 1,", "", "'version' is missing");
  expect_fault("\"version\": 1", "\"version\": \"1\"", "its version is \"1\"");
  expect_fault("\"version\": 1,", "\"version\": 1, \"transform\": [],", "'transform' is unknown");
  expect_fault("\"version\": 1,", "\"version\": 1, \"version\": 1,", "'version' twice");
  expect_fault("\"mean\"", "\"average\"", "'average' is unknown");
  expect_fault("\"apply\"", "\"auto\"", "'exif' is \"auto\"");
  expect_fault("\"apply\"", "6", "'exif' is 6");
  expect_fault("224", "0", "'input_size' is [0,192]");
  expect_fault("224", "-224", "'input_size' is [-224,192]");
  expect_fault("224", "2.5", "'input_size' is [2.5,192]");
  expect_fault("224", "99999999999999999999", "'input_size' is");
  expect_fault("224", "200000000", "'input_size' is [200000000,192]");  // 3.8e10 pixels
  expect_fault("224,", "", "'input_size' is [192]");
  expect_fault("256", "223", "'resize_short_side' is 223");
  expect_fault("256", "\"256\"", "'resize_short_side' is \"256\"");
  expect_fault("256", "null", "'keep_exact_size' is false");
  expect_fault("false", "0", "'keep_exact_size' is 0");
  expect_fault("0.485", "\"red\"", "'mean' is [\"red\"");
  expect_fault("0.485,", "", "'mean' is [0.456");
  expect_fault("0.485", "1e999", "not valid JSON");
  expect_fault("0.229", "0", "'std' is [0,");
  expect_fault("0.229", "-0.229", "'std' is [-0.229");
  expect_fault("0.229", "1e-300", "'std' is [1e-300");
  expect_fault("0.485", "1e300", "'mean' is [1e+300");
}

TEST(PreprocessingFile, TheColorOfPaddingIsThreeBytes) {
  const std::string json = format_preprocessing(
      {.height = 32, .width = 32, .normalization = {}, .fit = Fit::kPad, .fill = {1, 2, 3}});
  const std::size_t place = json.find("\"fill\"");
  ASSERT_NE(place, std::string::npos);
  for (const char* fill : {"[1, 2, 256]", "[1, 2]", "[1, 2, 0.5]", "[1, 2, -1]", "\"gray\"", "{}"})
    EXPECT_THROW(parse_preprocessing(json.substr(0, place) + "\"fill\": " + fill + "}", "x"), Error)
        << fill;
  EXPECT_EQ(parse_preprocessing(json.substr(0, place) + "\"fill\": [9, 0, 255]}", "x").fill,
            (std::array<std::uint8_t, 3>{9, 0, 255}));
  EXPECT_THROW(parse_preprocessing(json.substr(0, place) + "\"mode\": 1}", "x"), Error);
}

TEST(PreprocessingFile, HostileTextIsRefused) {
  const std::string whole = format_preprocessing(kResized);
  for (const std::string& json :
       {std::string(), std::string("null"), std::string("[1]"), std::string(60000, '['),
        std::string(70000, ' '), whole.substr(0, whole.size() / 2), whole + "{}",
        std::string("\0\xff\xfe", 3), std::string("{\"version\": {\"a\": [[[[[1]]]]]}}")}) {
    EXPECT_THROW(parse_preprocessing(json, "x"), Error) << json.substr(0, 40);
  }
}

}  // namespace
}  // namespace kiln
