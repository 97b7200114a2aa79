// --trace and --price-per-hour.
#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

OutputConfig insight(const Words& more) {
  return parse_as<TrainConfig>(train(more)).output;
}

TEST(Insight, IsAskedForByName) {
  EXPECT_EQ(insight({}).trace_path, "");
  EXPECT_EQ(insight({}).price_per_hour, 0);
  const OutputConfig both = insight({"--trace", "logs/trace.json", "--price-per-hour", "3.06"});
  EXPECT_EQ(both.trace_path, "logs/trace.json");
  EXPECT_EQ(both.price_per_hour, 3.06);
}

TEST(Insight, ATraceIsNeitherDataNorPartOfTheModel) {
  for (const auto& [path, option] :
       std::vector<std::pair<std::string, std::string>>{{"o/trace.json", "--trained-model-path"},
                                                        {"t/trace.json", "--train-data-path"},
                                                        {"v/trace.json", "--valid-data-path"}}) {
    ErrorCode code{};
    const std::string message = fault(train({"--trace", path}), &code);
    EXPECT_NE(message.find("--trace '" + path + "'"), std::string::npos) << message;
    EXPECT_NE(message.find(option), std::string::npos) << message;
    EXPECT_EQ(code, ErrorCode::kParameterParsing);
  }
  EXPECT_NE(fault(train({"--checkpoint-path", "c", "--trace", "c/trace.json"})), "no fault");
}

TEST(Insight, NeitherChangesARun) {
  const auto options_of = [](const Words& more) {
    return parse_as<TrainConfig>(train(more)).settings.texts();
  };
  for (const Setting& changed :
       changed_options(options_of({}), options_of({"--trace", "x", "--price-per-hour", "9"})))
    EXPECT_EQ(changed.option->effect, Effect::kFree) << changed.option->name;
}

}  // namespace
}  // namespace kiln
