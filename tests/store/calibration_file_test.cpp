#include "store/calibration_file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

const Calibration kFitted{4.0 / 3, {{0.25, 3, 2}, {0.8, 100, 90}, {1 - 1e-7, 5, 5}}};

void expect_fault(const std::string& json, const std::string& part) {
  try {
    parse_calibration(json, "folder/calibration.json");
    ADD_FAILURE() << "no fault: " << json;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    EXPECT_NE(error.message().find("'folder/calibration.json'"), std::string::npos);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

std::string with_answers(const std::string& answers) {
  return R"({"version": 1, "temperature": 1, "answers": )" + answers + "}";
}

TEST(CalibrationFile, ReadsWhatItWrites) {
  for (const Calibration& written : {kFitted, Calibration{}})
    EXPECT_EQ(parse_calibration(format_calibration(written), "x"), written);
}

TEST(CalibrationFile, HasTheFormatOfItsHeader) {
  const std::string json = R"({"version": 1, "temperature": 1.25, "answers": [[0.5, 3, 2]]})";
  EXPECT_EQ(parse_calibration(json, "x"), (Calibration{1.25, {{0.5, 3, 2}}}));
}

TEST(CalibrationFile, FaultsNameTheKeyAndWhatWasFound) {
  expect_fault("[]", "not a JSON object");
  expect_fault(R"({"version": 2})", "its version is 2");
  expect_fault(R"({"version": 1, "answers": []})", "'temperature' is missing");
  expect_fault(R"({"version": 1, "temperature": 1})", "'answers' is missing");
  expect_fault(R"({"version": 1, "temperature": 1, "answers": [], "more": 1})",
               "'more' is unknown");
  for (const std::string value : {"0", "-1", "1e7", "null", "\"1\""})
    expect_fault(R"({"version": 1, "answers": [], "temperature": )" + value + "}",
                 "'temperature' is");
  expect_fault(with_answers("{}"), "'answers' is {}");
  for (const std::string bin : {"[0.5, 3]", "[1.5, 3, 2]", "[-0.5, 3, 2]", "[0.5, 3, 4]",
                                "[0.5, -3, -4]", "[0.5, 3.5, 2]", "[0.5, 9999999999999, 2]", "7"})
    expect_fault(with_answers("[" + bin + "]"), "'answers' has " + bin.substr(0, 2));
  expect_fault(with_answers("[[0.5, 3, 2], [0.5, 3, 2]]"), "'answers' has");
}

}  // namespace
}  // namespace kiln
