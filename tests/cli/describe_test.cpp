// What the committed files do not show; tests/platforms compares those with the program's output.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/describe.h"

namespace kiln {
namespace {

const ComponentFacts kFacts = {"1.2.3", "registry/kiln:1.2.3"};

bool holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(Canvas, LimitsTheParametersOnACanvas) {
  for (const ComponentInfo& component : component_table()) {
    const std::vector<Option>& options = component.command.options;
    const auto shown = std::count_if(options.begin(), options.end(), [](const Option& option) {
      return option.canvas == Canvas::kParameter;
    });
    EXPECT_LE(shown, 25) << component.name;
  }
}

// In Kubeflow no parameter can be left out.
TEST(Canvas, HasADefaultForEveryParameter) {
  for (const ComponentInfo& component : component_table())
    for (const Option& option : component.command.options)
      EXPECT_TRUE(option.canvas != Canvas::kParameter || !canvas_default(option).empty())
          << option.name;
}

TEST(Components, ExistForCommandsThatWriteFolders) {
  for (const char* name : {"train", "init-model", "convert", "pack", "fine-tune"})
    EXPECT_NE(find_component(name), nullptr) << name;
  for (const char* name : {"launch", "inspect", "describe"})
    EXPECT_EQ(find_component(name), nullptr) << name;
}

// One command, two forms: what one shows is not in the other.
TEST(Components, OfOneCommandHaveTheirOwnPorts) {
  const ComponentInfo &train = *find_component("train"), &fine_tune = *find_component("fine-tune");
  EXPECT_EQ(fine_tune.command.name, "train");
  const std::string azure = azure_component(fine_tune, kFacts);
  EXPECT_TRUE(holds(azure, "name: kiln_fine_tune\n")) << azure;
  EXPECT_TRUE(holds(azure, "command: >-\n  kiln train\n")) << azure;
  EXPECT_TRUE(holds(azure, "  --data-path ${{inputs.data_path}}\n")) << azure;
  EXPECT_TRUE(holds(azure, "  weights:\n    type: uri_file\n    mode: ro_mount\n    desc"))
      << azure;
  EXPECT_TRUE(holds(azure, "    default: \"30min\"\n")) << azure;
  EXPECT_FALSE(holds(azure, "untrained_model_path")) << azure;
  EXPECT_FALSE(holds(azure, "learning_rate")) << "what a form passes is not decided by --auto";
  EXPECT_TRUE(holds(kubeflow_component(fine_tune, kFacts), "- name: weights\n  type: Model\n"));
  EXPECT_FALSE(holds(azure_component(train, kFacts), "  --weights "));
  EXPECT_EQ(find_option(*find_command("train"), "time-limit")->default_text, "");
}

TEST(Components, NameTheImageAndTheVersion) {
  for (const std::string& text : {azure_component(*find_component("train"), kFacts),
                                  kubeflow_component(*find_component("train"), kFacts)}) {
    EXPECT_TRUE(holds(text, "image: \"registry/kiln:1.2.3\"")) << text;
    EXPECT_TRUE(holds(text, "version: \"1.2.3\"")) << text;
  }
}

TEST(Components, HaveMetricsIfTheCommandWritesThem) {
  ComponentInfo component = *find_component("convert");
  EXPECT_FALSE(holds(kubeflow_component(component, kFacts), "executorInput"));
  component.command.options.push_back({.name = "run-input",
                                       .value_name = "JSON",
                                       .default_text = "",
                                       .unit = "",
                                       .group = "",
                                       .help = "",
                                       .canvas = Canvas::kKubeflowRun});
  const std::string text = kubeflow_component(component, kFacts);
  EXPECT_TRUE(holds(text, "- name: metrics\n  type: Metrics\n")) << text;
  EXPECT_TRUE(holds(text, "    - --run-input\n    - {executorInput: null}\n")) << text;
  EXPECT_FALSE(holds(azure_component(component, kFacts), "run-input"));
}

// An output of Azure ML lasts beyond a job that was stopped; Kubeflow has none that does.
TEST(Components, KeepCheckpointsWhereThePlatformDoes) {
  const ComponentInfo& train = *find_component("train");
  const std::string azure = azure_component(train, kFacts);
  EXPECT_TRUE(holds(azure, "  checkpoint_path:\n    type: uri_folder\n    mode: rw_mount\n"))
      << azure;
  EXPECT_TRUE(holds(azure, "  --checkpoint-path ${{outputs.checkpoint_path}}\n")) << azure;
  EXPECT_FALSE(holds(kubeflow_component(train, kFacts), "checkpoint"));
}

TEST(Schema, KnowsCountsWithUnits) {
  const std::string text = json_schema(*find_command("train"));
  const std::size_t begin = text.find("\"checkpoint-every\"");
  ASSERT_NE(begin, std::string::npos);
  const std::string property = text.substr(begin, text.find('}', begin) - begin);
  EXPECT_TRUE(holds(property, "\"type\": \"string\"")) << property;
  EXPECT_TRUE(holds(property, "\"pattern\"")) << property;
  EXPECT_TRUE(holds(property, "\"default\": \"1epoch,10min\"")) << property;
}

TEST(Markdown, SaysWhatAChangedOptionMeansOnResume) {
  const std::string text = options_markdown(*find_command("train"));
  EXPECT_TRUE(text.starts_with("| Option | Default | Range | Unit | On resume | Meaning |\n"));
  EXPECT_TRUE(holds(text, "| epochs | free | Passes"));
  EXPECT_TRUE(holds(text, "| threads | bits | Compute"));
  EXPECT_TRUE(holds(text, "| result | Seed"));
  EXPECT_FALSE(holds(options_markdown(*find_command("pack")), "On resume"));
}

TEST(Markdown, HasARowForEveryOption) {
  for (const CommandInfo& command : command_table()) {
    const std::string text = options_markdown(command);
    for (const Option& option : command.options)
      EXPECT_TRUE(holds(text, "| `--" + option.name + "` |")) << option.name;
  }
}

TEST(Schema, KnowsListsOfOperations) {
  const std::string text = json_schema(*find_command("train"));
  const std::size_t begin = text.find("\"augment\"");
  ASSERT_NE(begin, std::string::npos);
  const std::string property = text.substr(begin, text.find('}', begin) - begin);
  EXPECT_TRUE(holds(property, "^(none|standard|strong|(crop|flip|vflip|")) << property;
}

// What the shells make of them: tests/platforms/test_shells.py.
TEST(Completions, KnowEveryOption) {
  const std::string bash = bash_completions(), zsh = zsh_completions(), fish = fish_completions();
  for (const CommandInfo& command : command_table())
    for (const Option& option : command.options) {
      EXPECT_TRUE(holds(bash, "--" + option.name + "|")) << option.name;
      EXPECT_TRUE(holds(fish, " -l " + option.name + " -d ")) << option.name;
      const std::string value = option.kind == ValueKind::kFlag ? "[" : "=[";
      EXPECT_TRUE(holds(zsh, "--" + option.name + value)) << option.name;
    }
}

TEST(ManPage, WritesMinusSignsThatCanBeCopied) {
  const std::string page = man_page("1.2.3");
  EXPECT_TRUE(holds(page, "\"kiln 1.2.3\"")) << page.substr(0, 100);
  for (std::size_t at = page.find('-'); at != std::string::npos; at = page.find('-', at + 1))
    EXPECT_EQ(page[at - 1], '\\') << page.substr(at - 20, 40);
}

}  // namespace
}  // namespace kiln
