// Checks that the outputs of `kiln train` do not overlap with its inputs.
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

struct NamedPath {
  const char* option;
  std::string path;  // empty if not given
};

std::vector<NamedPath> inputs_of(const DataConfig& data) {
  std::vector<NamedPath> inputs = {{"untrained-model-path", data.untrained_model_path},
                                   {"weights", data.network.weights},
                                   {"transform-path", data.transform_path}};
  if (!data.split.data_path.empty()) {
    inputs.push_back({"data-path", data.split.data_path});
  } else {
    inputs.push_back({"train-data-path", data.train_path});
    inputs.push_back({"valid-data-path", data.valid_path});
  }
  return inputs;
}

std::vector<NamedPath> inputs_and_model_of(const TrainConfig& config) {
  std::vector<NamedPath> paths = inputs_of(config.data);
  paths.push_back({"trained-model-path", config.output.trained_model_path});
  return paths;
}

void keep_apart(Binder& binder, const char* name, const std::string& path,
                const std::vector<NamedPath>& from) {
  for (const NamedPath& other : from) require_apart(binder, name, path, other.option, other.path);
}

// The folder of --explain may be inside the log folder, but must not contain it.
void check_explain(Binder& binder, const TrainConfig& config) {
  const std::string &path = config.output.explain, &logs = config.output.log_path;
  keep_apart(binder, "explain", path, inputs_and_model_of(config));
  require_apart(binder, "explain", path, "checkpoint-path", config.checkpoint.path);
  if (lies_inside(logs, path))
    binder.fault("explain", ErrorCode::kParameterParsing,
                 "--explain '" + path + "' would hold --log-path '" + logs +
                     "' and must hold only pictures: choose a separate folder, such as '" + logs +
                     "/mistakes'.");
}

void check_paths(Binder& binder, const DataConfig& data, const OutputConfig& output) {
  const std::string& model = output.trained_model_path;
  keep_apart(binder, "trained-model-path", model, inputs_of(data));
  if (lies_inside(output.log_path, model)) {
    binder.fault(output.log_path_given ? "log-path" : "trained-model-path",
                 ErrorCode::kParameterParsing,
                 "--log-path '" + output.log_path + "' is inside --trained-model-path '" + model +
                     "', which must hold only the model: choose another folder for --log-path.");
  }
}

}  // namespace

void check_train_paths(Binder& binder, const TrainConfig& config) {
  check_paths(binder, config.data, config.output);
  keep_apart(binder, "checkpoint-path", config.checkpoint.path, inputs_and_model_of(config));
  check_explain(binder, config);
  keep_apart(binder, "trace", config.insight.trace_path, inputs_and_model_of(config));
  require_apart(binder, "trace", config.insight.trace_path, "checkpoint-path",
                config.checkpoint.path);
}

Problems overlaps_with_job(const char* output_name, const std::string& output,
                           const TrainConfig& config) {
  Problems problems;
  for (const NamedPath& other : inputs_and_model_of(config)) {
    const std::string overlap = overlap_of(output_name, output, other.option, other.path);
    if (!overlap.empty()) problems.add(Error(ErrorCode::kParameterParsing, overlap));
  }
  return problems;
}

}  // namespace kiln
