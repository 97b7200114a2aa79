#include "tools/describe/describe.h"

#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/platform/installation.h"
#include "base/text.h"
#include "cli/describe.h"
#include "cli/options.h"
#include "record/run_summary.h"
#include "report/error_info.h"

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
  if (config.format == "man") return man_page(std::string(version_number()));
  if (config.format == "bash") return bash_completions();
  if (config.format == "zsh") return zsh_completions();
  if (config.format == "fish") return fish_completions();
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

int answer(const HelpRequest& help) {
  std::fputs(help.text.c_str(), help.asked_for ? stdout : stderr);
  require_printed_result();
  return help.asked_for ? 0 : 2;
}

int answer(const DescribeConfig& config) {
  std::fputs(description(config).c_str(), stdout);
  require_printed_result();
  return 0;
}

void require_printed_result() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "The result cannot be written to standard output: redirect it to a writable file or "
              "device with free space.");
}

std::optional<std::filesystem::path> place_of_error_info(const Invocation& invocation) {
  const bool may_write =
      invocation.problems.empty() || invocation.is_log_path_asked || is_run_of_azure_ml();
  if (invocation.log_path.empty() || !may_write) return std::nullopt;
  return error_info_path(invocation.log_path);
}

}  // namespace kiln
