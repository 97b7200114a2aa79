#include "tools/describe/describe.h"

#include <cstdio>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/platform/installation.h"
#include "base/system.h"
#include "cli/options.h"
#include "record/run_json.h"
#include "record/run_summary.h"
#include "report/error_info.h"

namespace kiln {
namespace {

// In the order of the enumerations.
constexpr const char* kKinds[] = {"text",           "path",        "integer",    "auto or integer",
                                  "number",         "number from", "choice",     "choice or number",
                                  "counted choice", "model name",  "boolean",    "switch",
                                  "flag",           "share",       "allowance",  "every",
                                  "augment",        "duration",    "image size", "crop size",
                                  "auto or size"};
static_assert(std::size(kKinds) == static_cast<std::size_t>(ValueKind::kAutoOrSize) + 1);
constexpr const char* kRoles[] = {"hidden",        "parameter",   "data-in",       "data-out",
                                  "model-in",      "model-out",   "file-in",       "folder-in",
                                  "model-file-in", "checkpoints", "ranks-of-host", "kubeflow-run"};
static_assert(std::size(kRoles) == static_cast<std::size_t>(Canvas::kKubeflowRun) + 1);
constexpr const char* kEffects[] = {"free", "bits", "result"};

Json row_of(const Option& record) {
  const auto name_in = [](const auto& names, auto value) { return names[static_cast<int>(value)]; };
  Json row;
  const auto field = [&](const char* name, const auto& value) { row[name] = value; };
  KILN_EACH(name, port_name, value_name)
  field("default", record.default_text);
  KILN_EACH(unit, group, help)
  field("kind", name_in(kKinds, record.kind));
  KILN_EACH(required, instead, positional, repeatable, minimum, maximum, choices)
  field("range", range_text(record));
  field("canvas", name_in(kRoles, record.canvas));
  field("effect", record.effect ? name_in(kEffects, *record.effect) : "");
  return row;
}

std::string table_of_options() {
  Json commands = Json::array();
  for (const CommandInfo& command : command_table()) {
    Json options = Json::array();
    for (const Option& option : command.options) options.push_back(row_of(option));
    commands.push_back({{"name", command.name},
                        {"summary", command.summary},
                        {"usage", command.usage},
                        {"options", options}});
  }
  return Json({{"version", version_number()}, {"commands", commands}}).dump(2) + "\n";
}

}  // namespace

int answer(const HelpRequest& help) {
  std::fputs(help.text.c_str(), help.asked_for ? stdout : stderr);
  require_printed_result();
  return help.asked_for ? 0 : 2;
}

int answer(const DescribeConfig& config) {
  const std::string text = config.format == "json" ? table_of_options() : metric_definitions();
  std::fputs(text.c_str(), stdout);
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
  if (const std::string asked = environment("KILN_ERROR_INFO"); !asked.empty()) return asked;
  const bool may_write =
      invocation.problems.empty() || invocation.is_log_path_asked || is_run_of_azure_ml();
  if (invocation.log_path.empty() || !may_write) return std::nullopt;
  return error_info_path(invocation.log_path);
}

}  // namespace kiln
