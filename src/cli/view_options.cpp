// The options of commands that show something: `kiln watch`, `inspect`, `report`, `compare` and
// `describe`.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

Command bind_watch(Binder& binder) {
  return WatchConfig{binder.path("log-path")};
}

const std::string kForecast = "Forecast";

Option forecast_network() {
  Option option = network_name(
      "Train this network on the images for a few steps, and estimate how long --epochs would take "
      "here.");
  option.required = false;
  option.default_text = "";
  option.group = kForecast;
  return option;
}

std::vector<Option> inspect_options() {
  Option operations = augment("",
                              "Write an HTML page of twelve images as training with this --augment "
                              "would see them in six epochs; needs --output-path.");
  return with_record_options({
      positional_path("path", "PATH",
                      "Directory or file to inspect; the flag name may be omitted."),
      yes_or_no("json", ValueKind::kFlag, "", kReporting,
                "Print a JSON object instead of a table."),
      yes_or_no("check", ValueKind::kFlag, "", kReporting,
                "Decode every image and list the undecodable ones; exit code 1 if there are any."),
      optional_path(
          "valid-data-path", "DIR", "", kPaths,
          "Validation images, in the same formats: also list images that are in both, and with at "
          "most 20000 in all also at other sizes and qualities; exit code 1 if there are any."),
      operations,
      optional_path("output-path", "FILE", "", kPaths, "Output file of --augment's page."),
      integer("image-size", "auto", 16, 2048, "pixels", kImages,
              "Height and width of the images on --augment's page, or of the forecast. auto: as "
              "training would choose them."),
      seed(kImages, "Seed of the random operations on --augment's page."),
      forecast_network(),
      integer("batch-size", "16", 2, kMillion, "images", kForecast, "Images per batch."),
      integer("epochs", "5", 1, kMillion, "epochs", kForecast, "Epochs of the job."),
      choice("device", {"auto", "cuda", "cpu"}, kForecast, "Device to train on."),
      precision(kForecast, "Numeric precision, as in training."),
  });
}

// Reports those of `names` that are given without `main`, the option that they are for.
void require_with(Binder& binder, const char* main, std::initializer_list<const char*> names,
                  const std::string& what) {
  if (binder.given(main)) return;
  for (const char* name : names)
    if (binder.given(name))
      binder.fault(name, ErrorCode::kParameterParsing,
                   std::string("--") + name + " is for " + what + ": add --" + main + ".");
}

void bind_forecast(Binder& binder, InspectConfig& config) {
  require_with(binder, "model-name", {"batch-size", "epochs", "device", "precision"},
               "the forecast of a training job");
  config.epochs = binder.small_integer("epochs");
  if (!binder.given("model-name")) return;
  config.pace.emplace();
  config.pace->model_name = binder.choice("model-name");
  config.pace->batch_size = binder.small_integer("batch-size");
  config.pace->device = binder.device();
  config.pace->precision = precision_named(binder.choice("precision"));
}

Command bind_inspect(Binder& binder) {
  InspectConfig config{binder.path("path"), binder.boolean("json"), binder.boolean("check")};
  config.output_path = binder.path("output-path");
  config.image_size = binder.small_integer("image-size");
  config.random_seed = binder.integer("random-seed");
  config.records = bind_records(binder);
  config.valid_data_path = binder.path("valid-data-path");
  bind_forecast(binder, config);
  require_with(binder, "augment", {"output-path", "random-seed"}, "the page of --augment");
  if (!config.pace) require_with(binder, "augment", {"image-size"}, "the page of --augment");
  if (!binder.given("augment")) return config;
  config.augment = binder.augment();
  if (!binder.given("output-path"))
    binder.fault("augment", ErrorCode::kParameterParsing,
                 "--augment writes a page: add --output-path FILE.");
  for (const char* name : {"json", "check", "valid-data-path", "model-name"})
    if (binder.given(name))
      binder.fault(name, ErrorCode::kParameterParsing,
                   std::string("--") + name +
                       " cannot be used with --augment, which writes a page instead of the report: "
                       "leave one of them out.");
  return config;
}

std::vector<Option> report_options() {
  return {positional_path(
              "log-path", "DIR",
              "The --log-path of a run, or its metrics.jsonl; the flag name may be omitted."),
          optional_path("output-path", "FILE", "", kPaths,
                        "Output file. Default: report.html next to metrics.jsonl.")};
}

Command bind_report(Binder& binder) {
  return ReportConfig{binder.path("log-path"), binder.path("output-path")};
}

std::vector<Option> compare_options() {
  Option log_path = positional_path(
      "log-path", "RUN",
      "The --log-path of a run, repeated for each run; the flag name may be omitted.");
  log_path.repeatable = true;
  return {log_path, optional_path("output-path", "FILE", "compare.html", kPaths,
                                  "Output file for the HTML page.")};
}

Command bind_compare(Binder& binder) {
  CompareConfig config{binder.paths("log-path"), binder.path("output-path")};
  if (config.log_paths.size() == 1)
    binder.fault("log-path", ErrorCode::kParameterParsing,
                 "Only one run is given, but `kiln compare` needs at least two: add the --log-path "
                 "of another run.");
  return config;
}

std::vector<Option> describe_options(const std::vector<std::string>& names) {
  Option format =
      choice("format", {"component", "kubeflow", "json-schema", "markdown", "sagemaker-metrics"},
             kReporting,
             "component: Azure ML component. kubeflow: Kubeflow Pipelines component. json-schema: "
             "schema of a --config file. markdown: table of options. sagemaker-metrics: "
             "MetricDefinitions that match train's epoch line.");
  format.default_text = "";
  format.required = true;
  Option command = choice("command", names, kReporting,
                          "The command to describe; or, for component files, fine-tune: train with "
                          "weights and one folder of images.");
  command.value_name = "COMMAND";
  return {format, command,
          optional_path("image", "IMAGE", "", kReporting,
                        "Container image of a component, with registry and tag. Default: kiln, "
                        "tagged with this version.")};
}

Command bind_describe(Binder& binder) {
  return DescribeConfig{binder.choice("format"), binder.choice("command"), binder.path("image")};
}

}  // namespace

CommandInfo watch_command() {
  return {"watch",
          "Follow a running job from another terminal by reading its --log-path.",
          "LOG-PATH",
          {positional_path("log-path", "DIR",
                           "The --log-path of the run; the flag name may be omitted.")},
          bind_watch};
}

CommandInfo inspect_command() {
  return {"inspect", "Show what a directory or file contains; optionally check its images.",
          "PATH [options]", inspect_options(), bind_inspect};
}

CommandInfo report_command() {
  return {"report", "Write an HTML report of a training run, finished or not.",
          "LOG-PATH [options]", report_options(), bind_report};
}

CommandInfo compare_command() {
  return {"compare", "Compare training runs in a table and an HTML page.", "RUN RUN... [options]",
          compare_options(), bind_compare};
}

CommandInfo describe_command(const std::vector<std::string>& names) {
  return {"describe", "Print a command's options as a component file, schema or table.",
          "--format FORMAT [options]", describe_options(names), bind_describe};
}

}  // namespace kiln
