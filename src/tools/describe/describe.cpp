#include "tools/commands.h"

#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/describe.h"
#include "cli/options.h"
#include "record/run_summary.h"
#include "run/process/versions.h"

namespace kiln {
namespace {

// The command `name`. Throws Error kUserError if it is only a component.
const CommandInfo& command_named(const std::string& name, const std::string& format) {
  if (const CommandInfo* command = find_command(name)) return *command;
  const std::string& command = find_component(name)->command.name;
  throw Error(ErrorCode::kUserError, "'" + name + "' is a component of `kiln " + command +
                                         "`, not a command: give --command " + command +
                                         " for --format " + format + ".");
}

const ComponentInfo& component_named(const std::string& name) {
  if (const ComponentInfo* component = find_component(name)) return *component;
  std::vector<std::string> names;
  for (const ComponentInfo& component : component_table()) names.push_back(component.name);
  throw Error(ErrorCode::kUserError, "`kiln " + name +
                                         "` cannot be a pipeline step, so it has no component: "
                                         "use " +
                                         join_choices(names) + ".");
}

std::string description(const DescribeConfig& config) {
  if (config.format == "sagemaker-metrics") return metric_definitions();
  if (config.format == "markdown")
    return options_markdown(command_named(config.command, config.format));
  if (config.format == "json-schema")
    return json_schema(command_named(config.command, config.format));
  const ComponentInfo& component = component_named(config.command);
  const ComponentFacts facts{
      std::string(version_number()),
      config.image.empty() ? "kiln:" + std::string(version_number()) : config.image};
  return config.format == "kubeflow" ? kubeflow_component(component, facts)
                                     : azure_component(component, facts);
}

}  // namespace

int run(const DescribeConfig& config, Process&) {
  std::fputs(description(config).c_str(), stdout);
  return 0;
}

}  // namespace kiln
