#include "report/failure/error_info.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace kiln {
namespace {

TEST(ErrorInfo, HasTheDesignersForm) {
  EXPECT_EQ(error_info_of_success(), "{\n  \"Exception\": null\n}");
  EXPECT_EQ(
      error_info_of("LessThanOrEqualTo", 7, "too large"),
      "{\n  \"Exception\": {\n    \"ErrorId\": \"LessThanOrEqualTo\",\n    \"ErrorCode\": 7,\n"
      "    \"ExceptionType\": \"ModuleException\",\n    \"Traceback\": \"\",\n"
      "    \"Message\": \"LessThanOrEqualTo: too large\"\n  }\n}");
}

TEST(ErrorInfo, GivesItsMessageBack) {
  EXPECT_EQ(message_of_error_info(error_info_of("UserError", 2000, "one: two\nthree")),
            "one: two\nthree");
  EXPECT_EQ(message_of_error_info(error_info_of("InternalError", 1000, "odd")), "odd");
  EXPECT_EQ(message_of_error_info(error_info_of_success()), "");
  EXPECT_EQ(message_of_error_info("{"), "");
}

TEST(ErrorInfo, CutsVeryLongMessages) {
  EXPECT_LT(error_info_of("InvalidDataset", 18, std::string(20000, 'x')).size(), 4400U);
}

TEST(ReportFailure, FirstProblemDecidesCodeAndExit) {
  Problems problems;
  problems.add(Error(ErrorCode::kInvalidDataset, "no images"));
  problems.add(Error(ErrorCode::kInvalidModelDirectory, "no model"));
  const FailureReport report = report_failure(std::make_exception_ptr(problems));
  EXPECT_EQ(report.exit_code, 1);
  EXPECT_EQ(report.messages.size(), 2U);
  EXPECT_NE(report.error_info.find("\"ErrorCode\": 18"), std::string::npos);
}

TEST(ReportFailure, TellsBadInputFromFailuresAndBugs) {
  const auto exit_of = [](auto failure) {
    return report_failure(std::make_exception_ptr(failure)).exit_code;
  };
  EXPECT_EQ(exit_of(Error(ErrorCode::kParameterParsing, "")), 2);
  EXPECT_EQ(exit_of(Error(ErrorCode::kFailedToWriteOutputs, "")), 3);
  EXPECT_EQ(exit_of(std::bad_alloc()), 3);
  EXPECT_EQ(exit_of(std::system_error(EAGAIN, std::generic_category())), 3);
  EXPECT_EQ(exit_of(std::runtime_error("odd")), 70);
}

}  // namespace
}  // namespace kiln
