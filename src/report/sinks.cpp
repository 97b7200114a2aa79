#include "report/sinks.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "record/run_json.h"

namespace kiln {
namespace {

// Python's float() and common CSV readers accept these words.
std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return formatted("%.9g", value);
}

class EpochsCsv : public RunSink {
 public:
  explicit EpochsCsv(std::filesystem::path path) : path_(std::move(path)) {}

  std::string_view name() const override { return kEpochsFileName; }

  void epoch(const EpochRecord& epoch, const ValidationDetails* /*details*/) override {
    const std::vector<Metric> metrics = epoch_metrics(epoch);
    std::vector<std::string> columns = columns_;
    std::string text;
    if (columns.empty()) {
      text = "epoch";
      for (const Metric& metric : metrics) {
        columns.push_back(metric.name);
        text += "," + metric.name;
      }
      text += "\r\n";
    }
    text += std::to_string(epoch.epoch);
    for (const std::string& column : columns) {
      const auto found = std::ranges::find(metrics, column, &Metric::name);
      text += "," + (found == metrics.end() ? "" : number(found->value));
    }
    if (!file_) file_.emplace(path_);
    file_->append(text + "\r\n");
    columns_ = std::move(columns);
  }

 private:
  std::filesystem::path path_;
  std::optional<AppendedFile> file_;  // created with the first row
  std::vector<std::string> columns_;  // set once the header and the first row are written
};

class KfpArtifact : public RunSink {
 public:
  KfpArtifact(std::string output, Json artifact, std::filesystem::path output_file)
      : output_(std::move(output)),
        artifact_(std::move(artifact)),
        output_file_(std::move(output_file)) {}

  std::string_view name() const override { return "--kfp-executor-input"; }
  void end(const RunRecord& run) override {
    artifact_["metadata"] = Json::object();
    if (const EpochRecord* saved = kept_epoch(run))
      for (const auto& [name, value] : epoch_metrics(*saved))
        artifact_["metadata"][name] = as_json(value);
    const Json told = {{"artifacts", {{output_, {{"artifacts", Json::array({artifact_})}}}}}};
    std::filesystem::create_directories(std::filesystem::absolute(output_file_).parent_path());
    write_file_durably(output_file_, told.dump(2));
  }

 private:
  std::string output_;
  Json artifact_;
  std::filesystem::path output_file_;
};

// Returns the name of the output whose artifact is of type system.Metrics, or "metrics" if there is
// none.
std::string metrics_output(const Json& artifacts) {
  for (const auto& [name, output] : artifacts.items())
    if (output.value("/artifacts/0/type/schemaTitle"_json_pointer, "") == "system.Metrics")
      return name;
  return "metrics";
}

}  // namespace

std::unique_ptr<RunSink> make_epochs_csv(const std::filesystem::path& path) {
  return std::make_unique<EpochsCsv>(path);
}

std::unique_ptr<RunSink> make_kfp_artifact(const std::string& executor_input) try {
  const Json outputs = Json::parse(executor_input).at("outputs");
  const Json& artifacts = outputs.at("artifacts");
  const std::string output = metrics_output(artifacts);
  const Json& given = artifacts.at(output).at("artifacts").at(0);
  Json artifact = {{"name", given.at("name")}, {"uri", given.at("uri")}};
  return std::make_unique<KfpArtifact>(output, std::move(artifact),
                                       outputs.at("outputFile").get<std::string>());
} catch (const Json::exception&) {
  throw Error(ErrorCode::kUserError,
              "--kfp-executor-input is not the JSON that Kubeflow Pipelines substitutes for "
              "{executorInput: null}, with an output artifact of type Metrics, so its Metrics tab "
              "will stay empty: omit the option, or declare such an output.");
}

}  // namespace kiln
