#include "report/sinks/sinks.h"

#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "report/record/metrics.h"
#include "report/record/run_json.h"
#include "report/record/run_summary.h"

namespace kiln {
namespace {

std::vector<Metric> metrics_of_saved_epoch(const RunRecord& run) {
  const EpochRecord* saved = kept_epoch(run);
  return saved == nullptr ? std::vector<Metric>{} : epoch_metrics(*saved);
}

void write_json(const std::filesystem::path& path, const Json& json) {
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path());
  write_file_durably(path, json.dump(2));
}

class KfpArtifact : public RunSink {
 public:
  KfpArtifact(std::string output, Json artifact, std::filesystem::path output_file)
      : output_(std::move(output)),
        artifact_(std::move(artifact)),
        output_file_(std::move(output_file)) {}

  std::string_view name() const override { return "--kfp-executor-input"; }
  void end(const RunRecord& run) override {
    Json metadata = Json::object();
    for (const auto& [name, value] : metrics_of_saved_epoch(run)) metadata[name] = as_json(value);
    artifact_["metadata"] = metadata;
    write_json(output_file_,
               {{"artifacts", {{output_, {{"artifacts", Json::array({artifact_})}}}}}});
  }

 private:
  std::string output_;
  Json artifact_;
  std::filesystem::path output_file_;
};

class KfpMetricsFile : public RunSink {
 public:
  explicit KfpMetricsFile(std::filesystem::path path) : path_(std::move(path)) {}

  std::string_view name() const override { return "--kfp-metrics"; }
  void end(const RunRecord& run) override {
    Json list = Json::array();
    for (const auto& [name, value] : metrics_of_saved_epoch(run)) {
      if (!std::isfinite(value)) continue;
      const bool share =
          name.ends_with("accuracy") || name.ends_with("error") || name.ends_with("recall");
      list.push_back({{"name", dashed(name)},
                      {"numberValue", value},
                      {"format", share ? "PERCENTAGE" : "RAW"}});
    }
    write_json(path_, {{"metrics", list}});
  }

 private:
  static std::string dashed(std::string name) {
    for (char& c : name)
      c = std::isalnum(static_cast<unsigned char>(c)) != 0
              ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
              : '-';
    return name;
  }

  std::filesystem::path path_;
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

std::unique_ptr<RunSink> make_kfp_metrics_file(const std::filesystem::path& path) {
  return std::make_unique<KfpMetricsFile>(path);
}

}  // namespace kiln
