// `kiln train`: its outputs must not lie among its inputs.
#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {
namespace {

void keep_from_data(Binder& binder, const char* name, const std::string& path,
                    const DataConfig& data) {
  require_apart(binder, name, path, "transform-path", data.transform_path);
  if (!data.split.data_path.empty())
    return require_apart(binder, name, path, "data-path", data.split.data_path);
  require_apart(binder, name, path, "train-data-path", data.train_path);
  require_apart(binder, name, path, "valid-data-path", data.valid_path);
}

// From inputs and the model.
void keep_apart(Binder& binder, const char* name, const std::string& path,
                const TrainConfig& config) {
  const DataConfig& data = config.data;
  require_apart(binder, name, path, "untrained-model-path", data.untrained_model_path);
  require_apart(binder, name, path, "weights", data.network.weights);
  keep_from_data(binder, name, path, data);
  require_apart(binder, name, path, "trained-model-path", config.output.trained_model_path);
}

// It may lie among the logs, but not hold them.
void check_explain(Binder& binder, const TrainConfig& config) {
  const std::string &path = config.output.explain, &logs = config.output.log_path;
  keep_apart(binder, "explain", path, config);
  require_apart(binder, "explain", path, "checkpoint-path", config.checkpoint.path);
  if (lies_inside(logs, path))
    binder.fault("explain", ErrorCode::kParameterParsing,
                 "--explain '" + path + "' would hold --log-path '" + logs +
                     "' and must hold only pictures: choose a separate folder, such as '" + logs +
                     "/mistakes'.");
}

void check_paths(Binder& binder, const DataConfig& data, const OutputConfig& output) {
  const std::string& model = output.trained_model_path;
  require_apart(binder, "trained-model-path", model, "untrained-model-path",
                data.untrained_model_path);
  require_apart(binder, "trained-model-path", model, "weights", data.network.weights);
  keep_from_data(binder, "trained-model-path", model, data);
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
  keep_apart(binder, "checkpoint-path", config.checkpoint.path, config);
  check_explain(binder, config);
  keep_apart(binder, "trace", config.insight.trace_path, config);
  require_apart(binder, "trace", config.insight.trace_path, "checkpoint-path",
                config.checkpoint.path);
}

}  // namespace kiln
