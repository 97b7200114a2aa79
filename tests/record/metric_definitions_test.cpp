#include "record/run_summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "report/console.h"

namespace kiln {
namespace {

// Like SageMaker: the first group of each expression, searched in a line of the log.
TEST(MetricDefinitions, MatchTheNumbersOfTheEpochLine) {
  EpochRecord record;
  record.epoch = 12;
  record.average_images_per_second = 12.7395;
  record.train = {1.25e-4 * 12, 4, 12, 12};
  record.valid = {1.11136 * 6, 1, 6, 6};
  const std::string line = epoch_line(record);
  std::map<std::string, double> found;
  for (const nlohmann::json& metric : nlohmann::json::parse(metric_definitions())) {
    std::smatch match;
    ASSERT_TRUE(std::regex_search(line, match, std::regex(metric["Regex"].get<std::string>())))
        << metric;
    found[metric["Name"]] = std::stod(match[1]);
  }
  const std::map<std::string, double> expected = {
      {"train:images_per_second", 12.74}, {"train:loss", 0.000125},     {"train:error", 0.666667},
      {"validation:loss", 1.11136},       {"validation:top1", 0.16667}, {"validation:top5", 1.0}};
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace kiln
