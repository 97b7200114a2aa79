#include "report/error_info.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace kiln {
namespace {

TEST(ErrorInfo, HasTheDesignersFormat) {
  EXPECT_EQ(error_info_of_success(), "{\n  \"Exception\": null\n}");
  EXPECT_EQ(
      error_info_of("LessThanOrEqualTo", 7, "too large"),
      "{\n  \"Exception\": {\n    \"ErrorId\": \"LessThanOrEqualTo\",\n    \"ErrorCode\": 7,\n"
      "    \"ExceptionType\": \"ModuleException\",\n    \"Traceback\": \"\",\n"
      "    \"Message\": \"LessThanOrEqualTo: too large\"\n  }\n}");
}

TEST(ErrorInfo, RoundTripsItsMessage) {
  EXPECT_EQ(message_of_error_info(error_info_of("UserError", 2000, "one: two\nthree")),
            "one: two\nthree");
  EXPECT_EQ(message_of_error_info(error_info_of("InternalError", 1000, "odd")), "odd");
  EXPECT_EQ(message_of_error_info(error_info_of_success()), "");
  EXPECT_EQ(message_of_error_info("{"), "");
}

TEST(ErrorInfo, ShortensVeryLongMessages) {
  EXPECT_LT(error_info_of("InvalidDataset", 18, std::string(20000, 'x')).size(), 4400U);
}

TEST(ReportFailure, TheFirstProblemDecidesCodeAndExitCode) {
  Problems problems;
  problems.add(Error(ErrorCode::kInvalidDataset, "no images"));
  problems.add(Error(ErrorCode::kInvalidModelDirectory, "no model"));
  const FailureReport report = report_failure(std::make_exception_ptr(problems));
  EXPECT_EQ(report.exit_code, 1);
  EXPECT_EQ(report.messages.size(), 2U);
  EXPECT_NE(report.error_info.find("\"ErrorCode\": 18"), std::string::npos);
}

TEST(ReportFailure, DistinguishesBadInputFailuresAndBugs) {
  const auto exit_of = [](auto failure) {
    return report_failure(std::make_exception_ptr(failure)).exit_code;
  };
  EXPECT_EQ(exit_of(Error(ErrorCode::kParameterParsing, "")), 2);
  EXPECT_EQ(exit_of(Error(ErrorCode::kFailedToWriteOutputs, "")), 3);
  EXPECT_EQ(exit_of(std::bad_alloc()), 3);
  EXPECT_EQ(exit_of(std::system_error(EAGAIN, std::generic_category())), 3);
  EXPECT_EQ(exit_of(std::runtime_error("odd")), 70);
}

TEST(ReportFailure, APathThatCannotBeUsedIsNoBug) {
  const std::filesystem::path path = "/folder/" + std::string(5000, 'a');
  const auto fault = std::make_error_code(std::errc::filename_too_long);
  const FailureReport report = report_failure(
      std::make_exception_ptr(std::filesystem::filesystem_error("status", path, fault)));
  EXPECT_EQ(report.exit_code, 3);
  EXPECT_NE(report.messages.front().find("'/folder/aaa"), std::string::npos);
  EXPECT_LT(report.messages.front().size(), 600U);
}

}  // namespace
}  // namespace kiln
