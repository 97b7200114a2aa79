// Commands that show what is there: `kiln watch`, `inspect`, `report`, `compare` and `describe`.
#include "config/binder.h"
#include "config/command_rows.h"
#include "config/option_kinds.h"

namespace kiln {
namespace {

Command bind_watch(Binder& binder) {
  return WatchConfig{binder.path("log-path"), binder.plain()};
}

std::vector<Option> inspect_options() {
  return {positional_path("path", "PATH", "What to look at; also accepted without its flag."),
          yes_or_no("json", ValueKind::kFlag, "", kReporting, "Print one JSON object, no table."),
          yes_or_no("check", ValueKind::kFlag, "", kReporting,
                    "Decode every image and list the bad ones; exit status 1 if there are any.")};
}

Command bind_inspect(Binder& binder) {
  return InspectConfig{binder.path("path"), binder.boolean("json"), binder.boolean("check")};
}

std::vector<Option> report_options() {
  return {positional_path("log-path", "DIR",
                          "The --log-path of a run, or its metrics.jsonl; also accepted without "
                          "its flag."),
          optional_path("output-path", "FILE", "", kPaths,
                        "Where the page is written. Without it: report.html beside "
                        "metrics.jsonl.")};
}

Command bind_report(Binder& binder) {
  return ReportConfig{binder.path("log-path"), binder.path("output-path")};
}

std::vector<Option> compare_options() {
  Option log_path = positional_path("log-path", "RUN",
                                    "The --log-path of a run, once for each; also accepted without "
                                    "its flag.");
  log_path.repeatable = true;
  return {log_path, optional_path("output-path", "FILE", "compare.html", kPaths,
                                  "Where the page with all of them is written.")};
}

Command bind_compare(Binder& binder) {
  CompareConfig config{binder.paths("log-path"), binder.path("output-path")};
  if (config.log_paths.size() == 1)
    binder.fault("log-path", ErrorCode::kParameterParsing,
                 "Only one run is given: `kiln compare` wants two or more.");
  return config;
}

std::vector<Option> describe_options(const std::vector<std::string>& names) {
  Option format = choice(
      "format", {"component", "kubeflow", "json-schema", "markdown", "sagemaker-metrics"},
      kReporting,
      "component: Azure ML. kubeflow: Kubeflow Pipelines. json-schema: every option, also for "
      "editors of a --config file. markdown: a table. sagemaker-metrics: the MetricDefinitions of "
      "train's epoch line.");
  format.default_text = "";
  format.required = true;
  Option command = choice("command", names, kReporting, "The command that is described.");
  command.value_name = "COMMAND";
  return {format, command,
          optional_path("image", "IMAGE", "", kReporting,
                        "The container image that a component names, with its registry and tag. "
                        "Without it: kiln, with this version as tag.")};
}

Command bind_describe(Binder& binder) {
  return DescribeConfig{binder.choice("format"), binder.choice("command"), binder.path("image")};
}

}  // namespace

CommandInfo watch_command() {
  return {"watch",
          "Follow a running job from another terminal, by what it writes in its --log-path.",
          "LOG-PATH [--plain]",
          {positional_path("log-path", "DIR",
                           "The --log-path of the run; also accepted without its flag."),
           plain()},
          bind_watch};
}

CommandInfo inspect_command() {
  return {"inspect", "Say what a directory or file holds; check its images.",
          "PATH [--json] [--check]", inspect_options(), bind_inspect};
}

CommandInfo report_command() {
  return {"report", "Write the page about a training run, finished or not.", "LOG-PATH [options]",
          report_options(), bind_report};
}

CommandInfo compare_command() {
  return {"compare", "Show several training runs beside each other: a table, and a page.",
          "RUN RUN... [options]", compare_options(), bind_compare};
}

CommandInfo describe_command(const std::vector<std::string>& names) {
  return {"describe", "Print a command's options as a component file, a schema or a table.",
          "--format FORMAT [options]", describe_options(names), bind_describe};
}

}  // namespace kiln
