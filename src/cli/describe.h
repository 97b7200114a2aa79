// A command's options in platform formats. Pure functions from the option table to text that ends
// with a newline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace kiln {

// A pipeline step as it appears in a designer: a command, with roles and defaults for its options.
// Most components are named after their command; train has a second one.
struct ComponentInfo {
  std::string name;     // "fine-tune"
  std::string summary;  // describes the component
  CommandInfo command;  // the step runs `kiln NAME` of this command
};

// One for each command that has an output on the canvas, followed by the additional ones.
const std::vector<ComponentInfo>& component_table();

// nullptr if there is none.
const ComponentInfo* find_component(std::string_view name);

struct ComponentFacts {
  std::string version;  // "0.1.0"
  std::string image;    // the container image, with registry and tag
};

// A command component for Azure ML's CLI v2, by its commandComponent schema. Optional options
// without a default are wrapped in `$[[ ]]`, which Azure drops if the input is omitted.
std::string azure_component(const ComponentInfo& component, const ComponentFacts& facts);

// A Kubeflow Pipelines component in the v1 format, which both SDK 1 and SDK 2 load. Optional inputs
// are left out, since SDK 2 back ends pass on their placeholders unsubstituted.
std::string kubeflow_component(const ComponentInfo& component, const ComponentFacts& facts);

// The JSON Schema (draft 2020-12) of a --config file: any option, with `-` or `_` in its name.
std::string json_schema(const CommandInfo& command);

// A Markdown table of the options.
std::string options_markdown(const CommandInfo& command);

// Of the whole program: the manual page kiln(1), and the completions of three shells.
std::string man_page(const std::string& version);
std::string bash_completions();
std::string zsh_completions();
std::string fish_completions();

// The description of an option in a form: help, range and unit.
std::string form_text(const Option& option);
// "train_data_path" for train-data-path.
std::string canvas_name(const std::string& name);
// The default, or the first value of a choice without a default; empty for optional options.
std::string canvas_default(const Option& option);

}  // namespace kiln
