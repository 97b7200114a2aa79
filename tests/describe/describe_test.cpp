// What the committed files do not show; tests/platforms compares those with the program's output.
#include <gtest/gtest.h>

#include <algorithm>

#include "describe/describe.h"

namespace kiln {
namespace {

const ComponentFacts kFacts = {"1.2.3", "registry/kiln:1.2.3"};

bool holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(Canvas, LimitsTheParametersOnACanvas) {
  for (const CommandInfo& command : command_table()) {
    const auto shown =
        std::count_if(command.options.begin(), command.options.end(),
                      [](const Option& option) { return option.canvas == Canvas::kParameter; });
    EXPECT_LE(shown, 25) << command.name;
  }
}

// In Kubeflow no parameter can be left out.
TEST(Canvas, HasADefaultForEveryParameter) {
  for (const CommandInfo& command : command_table())
    for (const Option& option : command.options)
      EXPECT_TRUE(option.canvas != Canvas::kParameter || !canvas_default(option).empty())
          << option.name;
}

TEST(Components, ExistForCommandsThatWriteFolders) {
  for (const char* name : {"train", "init-model", "convert", "pack"})
    EXPECT_TRUE(is_component(*find_command(name))) << name;
  for (const char* name : {"launch", "inspect", "describe"})
    EXPECT_FALSE(is_component(*find_command(name))) << name;
}

TEST(Components, NameTheImageAndTheVersion) {
  for (const std::string& text : {azure_component(*find_command("train"), kFacts),
                                  kubeflow_component(*find_command("train"), kFacts)}) {
    EXPECT_TRUE(holds(text, "image: \"registry/kiln:1.2.3\"")) << text;
    EXPECT_TRUE(holds(text, "version: \"1.2.3\"")) << text;
  }
}

TEST(Components, HaveMetricsIfTheCommandWritesThem) {
  CommandInfo command = *find_command("convert");
  EXPECT_FALSE(holds(kubeflow_component(command, kFacts), "executorInput"));
  command.options.push_back({.name = "run-input",
                             .value_name = "JSON",
                             .default_text = "",
                             .unit = "",
                             .group = "",
                             .help = "",
                             .canvas = Canvas::kKubeflowRun});
  const std::string text = kubeflow_component(command, kFacts);
  EXPECT_TRUE(holds(text, "- name: metrics\n  type: Metrics\n")) << text;
  EXPECT_TRUE(holds(text, "    - --run-input\n    - {executorInput: null}\n")) << text;
  EXPECT_FALSE(holds(azure_component(command, kFacts), "run-input"));
}

TEST(Markdown, HasARowForEveryOption) {
  for (const CommandInfo& command : command_table()) {
    const std::string text = options_markdown(command);
    for (const Option& option : command.options)
      EXPECT_TRUE(holds(text, "| `--" + option.name + "` |")) << option.name;
  }
}

}  // namespace
}  // namespace kiln
