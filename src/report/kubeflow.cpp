#include "report/sinks.h"

#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "record/run_json.h"
#include "record/run_summary.h"

namespace kiln {
namespace {

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
