// A command's options, told in the forms that platforms read. Pure functions from the option table
// to text that ends with a newline.
#pragma once

#include <string>

#include "config/options.h"

namespace kiln {

struct ComponentFacts {
  std::string version;  // "0.1.0"
  std::string image;    // the container image, with registry and tag
};

// Whether designers see the command: it has an output on the canvas.
bool is_component(const CommandInfo& command);

// Command component of Azure ML's CLI v2, by its commandComponent schema. Options that have neither
// a default nor must be given stand in `$[[ ]]`, which Azure drops when the input is left out.
std::string azure_component(const CommandInfo& command, const ComponentFacts& facts);

// Component of Kubeflow Pipelines in the v1 form, which SDK 1 and 2 load. Inputs that may be left
// out are not in it, as back ends of SDK 2 pass their placeholders on.
std::string kubeflow_component(const CommandInfo& command, const ComponentFacts& facts);

// JSON Schema, draft 2020-12, of a --config file: any of the options, with `-` or `_` in their
// names.
std::string json_schema(const CommandInfo& command);

// A table in Markdown.
std::string options_markdown(const CommandInfo& command);

// What a form says of an option: its help, range and unit.
std::string form_text(const Option& option);
// "train_data_path" for train-data-path.
std::string canvas_name(const std::string& name);
// The default, or of a choice without one its first; empty for what may be left out.
std::string canvas_default(const Option& option);

}  // namespace kiln
