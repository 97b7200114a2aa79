// Commands that show what is there: `kiln watch`, `inspect`, `report`, `compare` and `describe`.
#include "config/binder.h"
#include "config/option_rows.h"

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

std::vector<Option> bench_loader_options() {
  return {
      required_path("data", "PATH", "Images: a folder or archive, as train takes them."),
      integer("size", "224", 16, 2048, "pixels", kImages,
              "Height and width that images are brought to."),
      choice("augment", {"standard", "none", "flip", "strong"}, kImages,
             "How images are varied, as in training."),
      integer("batch-size", "64", 1, kMillion, "images", kImages, "Images in a batch."),
      integer("passes", "3", 1, kMillion, "passes", kMachine,
              "Passes that are measured, after one that fills the page cache."),
      integer("step-ms", "0", 0, 60'000, "milliseconds", kMachine,
              "Sleep so long after every batch, in place of a training step."),
      integer("threads", "auto", 1, 256, "threads", kMachine,
              "Threads that make batches. auto: one for each processor."),
      integer("read-ahead", "auto", 1, 4096, "files", kMachine,
              "Files to read before they are decoded. auto: 64 where reading is slow."),
  };
}

Command bind_bench_loader(Binder& binder) {
  BenchLoaderConfig config;
  config.data = binder.path("data");
  config.size = binder.small_integer("size");
  config.augment = binder.augment();
  config.threads = binder.small_integer("threads");
  config.batch_size = binder.small_integer("batch-size");
  config.passes = binder.small_integer("passes");
  config.step_ms = binder.small_integer("step-ms");
  config.read_ahead = binder.small_integer("read-ahead");
  return config;
}

std::vector<Option> bench_collective_options() {
  return {
      ranks(
          false, kRanks,
          "Processes to start. auto: one for each GPU of this host. Left out where mpirun or srun "
          "has started them."),
      choice("device", {"auto", "cuda", "cpu"}, kMachine,
             "Where the sums are: on GPUs they go over NCCL, on CPUs over MPI."),
      optional_path("log-path", "DIR", "logs", kReporting,
                    "Folder of 70_mpi_log.txt, which keeps what mpirun and all ranks say."),
  };
}

Command bind_bench_collective(Binder& binder) {
  BenchCollectiveConfig config;
  config.ranks.launch = binder.ranks();
  config.ranks.arguments = binder.words();
  config.ranks.device = binder.device();
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  return config;
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

// `kiln bench loader` and `kiln bench collective`.

CommandInfo bench_loader_command() {
  return {"bench loader",
          "Measure how fast images come from files into batches; prints one JSON object.",
          "--data PATH [options]", bench_loader_options(), bind_bench_loader};
}

CommandInfo bench_collective_command() {
  return {"bench collective",
          "Measure sums over several processes, beside MPI's own; prints one JSON object.",
          "--ranks N|auto [options]", bench_collective_options(), bind_bench_collective};
}

}  // namespace kiln
