#include "commands/commands.h"

#include <cstdio>

#include "base/error.h"
#include "config/options.h"
#include "describe/describe.h"
#include "process/versions.h"
#include "report/record/metrics.h"

namespace kiln {
namespace {

std::string description(const DescribeConfig& config) {
  const CommandInfo& command = *find_command(config.command);
  if (config.format == "sagemaker-metrics") return metric_definitions();
  if (config.format == "markdown") return options_markdown(command);
  if (config.format == "json-schema") return json_schema(command);
  if (!is_component(command))
    throw Error(ErrorCode::kUserError, "`kiln " + command.name +
                                           "` cannot be a pipeline step, so it has no component: "
                                           "use train, init-model, convert or pack.");
  const ComponentFacts facts{
      std::string(version_number()),
      config.image.empty() ? "kiln:" + std::string(version_number()) : config.image};
  return config.format == "kubeflow" ? kubeflow_component(command, facts)
                                     : azure_component(command, facts);
}

}  // namespace

int run(const DescribeConfig& config, Process&) {
  std::fputs(description(config).c_str(), stdout);
  return 0;
}

}  // namespace kiln
