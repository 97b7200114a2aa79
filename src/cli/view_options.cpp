// The options of commands that show something: `kiln watch`, `inspect`, `report`, `compare` and
// `describe`.
#include <initializer_list>

#include "cli/command_rows.h"

namespace kiln {
namespace {

using enum Mark;

Rows<WatchConfig> watch_rows() {
  return {opt(&WatchConfig::log_path, "log-path", path("DIR"), kPaths,
              "The --log-path of the run; the flag name may be omitted.")
              .is(kPositional)};
}

Rows<InspectConfig> inspect_rows() {
  using Config = InspectConfig;
  const std::string forecast = "Forecast";
  return {
      opt(&Config::path, "path", path("PATH"), kPaths,
          "Directory or file to inspect; the flag name may be omitted.")
          .is(kPositional),
      opt(&Config::json, "json", flag(), kReporting, "Print a JSON object instead of a table."),
      opt(&Config::check, "check", flag(), kReporting,
          "Decode every image and list the undecodable ones; exit code 1 if there are any."),
      opt(&Config::valid_data_path, "valid-data-path", path("DIR"), kPaths,
          "Validation images, in the same formats: also list images that are in both, and with at "
          "most 20000 in all also at other sizes and qualities; exit code 1 if there are any."),
      opt(&Config::augment, "augment", augmentation(), kImages,
          "Write an HTML page of twelve images as training with this --augment would see them in "
          "six epochs; needs --output-path."),
      opt(&Config::output_path, "output-path", path("FILE"), kPaths,
          "Output file of --augment's page."),
      opt(&Config::image_size, "image-size", auto_or(16, 2048, "pixels"), kImages,
          "Height and width of the images on --augment's page, or of the forecast. auto: as "
          "training would choose them."),
      seed_row<Config>(kImages, "Seed of the random operations on --augment's page."),
      within(&Config::pace,
             {opt(&StepConfig::model_name, "model-name", network_name(), forecast,
                  "Train this network on the images for a few steps, and estimate how long "
                  "--epochs would take here."),
              opt(&StepConfig::batch_size, "batch-size", from(2, kMillion, "images"), forecast,
                  "Images per batch.")}),
      opt(&Config::epochs, "epochs", from(1, kMillion, "epochs"), forecast, "Epochs of the job."),
      within(&Config::pace,
             {opt(&StepConfig::device, "device", kDevices, forecast, "Device to train on."),
              opt(&StepConfig::precision, "precision", kPrecisions, forecast,
                  "Numeric precision, as in training.")}),
      within(&Config::records, record_rows()),
  };
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

void check_inspect(Binder& binder, InspectConfig&) {
  require_with(binder, "model-name", {"batch-size", "epochs", "device", "precision"},
               "the forecast of a training job");
  require_with(binder, "augment", {"output-path", "random-seed"}, "the page of --augment");
  if (!binder.given("model-name"))
    require_with(binder, "augment", {"image-size"}, "the page of --augment");
  if (!binder.given("augment")) return;
  if (!binder.given("output-path"))
    binder.fault("augment", ErrorCode::kParameterParsing,
                 "--augment writes a page: add --output-path FILE.");
  for (const char* name : {"json", "check", "valid-data-path", "model-name"})
    if (binder.given(name))
      binder.fault(name, ErrorCode::kParameterParsing,
                   std::string("--") + name +
                       " cannot be used with --augment, which writes a page instead of the report: "
                       "leave one of them out.");
}

Rows<ReportConfig> report_rows() {
  return {opt(&ReportConfig::log_path, "log-path", path("DIR"), kPaths,
              "The --log-path of a run, or its metrics.jsonl; the flag name may be omitted.")
              .is(kPositional),
          opt(&ReportConfig::output_path, "output-path", path("FILE"), kPaths,
              "Output file. Default: report.html next to metrics.jsonl.")};
}

Rows<CompareConfig> compare_rows() {
  return {opt(&CompareConfig::log_paths, "log-path", path("RUN"), kPaths,
              "The --log-path of a run, repeated for each run; the flag name may be omitted.")
              .is(kPositional),
          opt(&CompareConfig::output_path, "output-path", path("FILE"), kPaths,
              "Output file for the HTML page.")};
}

void check_compare(Binder& binder, CompareConfig& config) {
  if (config.log_paths.size() == 1)
    binder.fault("log-path", ErrorCode::kParameterParsing,
                 "Only one run is given, but `kiln compare` needs at least two: add the --log-path "
                 "of another run.");
}

Rows<DescribeConfig> describe_rows(const std::vector<std::string>& names) {
  return {
      opt(&DescribeConfig::format, "format",
          one_of({"component", "kubeflow", "json-schema", "markdown", "sagemaker-metrics"}),
          kReporting,
          "component: Azure ML component. kubeflow: Kubeflow Pipelines component. json-schema: "
          "schema of a --config file. markdown: table of options. sagemaker-metrics: "
          "MetricDefinitions that match train's epoch line.")
          .required(),
      opt(&DescribeConfig::command, "command", one_of(names), kReporting,
          "The command to describe; or, for component files, fine-tune: train with weights and one "
          "folder of images.")
          .shown_as("COMMAND"),
      opt(&DescribeConfig::image, "image", path("IMAGE"), kReporting,
          "Container image of a component, with registry and tag. Default: kiln, tagged with this "
          "version.")};
}

}  // namespace

CommandInfo watch_command() {
  return command("watch", "Follow a running job from another terminal by reading its --log-path.",
                 "LOG-PATH", watch_rows());
}

CommandInfo inspect_command() {
  return command("inspect", "Show what a directory or file contains; optionally check its images.",
                 "PATH [options]", inspect_rows(), check_inspect);
}

CommandInfo report_command() {
  return command("report", "Write an HTML report of a training run, finished or not.",
                 "LOG-PATH [options]", report_rows());
}

CommandInfo compare_command() {
  return command("compare", "Compare training runs in a table and an HTML page.",
                 "RUN RUN... [options]", compare_rows(), check_compare);
}

CommandInfo describe_command(const std::vector<std::string>& names) {
  return command("describe", "Print a command's options as a component file, schema or table.",
                 "--format FORMAT [options]", describe_rows(names));
}

}  // namespace kiln
