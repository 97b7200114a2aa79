// A run on an MLflow tracking server: parameters and tags once, metrics while it trains, files and
// its status at the end.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/log.h"
#include "report/mlflow_server.h"
#include "report/run_sink.h"

namespace kiln {

struct MlflowFiles {
  std::vector<std::filesystem::path> files;  // sent at the end, as far as they are there
  bool whole_model = false;                  // else only its training.json
};

// The log must outlive it. Throws Error for an address that is none; a server that fails is warned
// of in the log, later, and costs no more than memory for MlflowSender::kMostWaiting points.
std::unique_ptr<RunSink> make_mlflow_sink(MlflowSettings settings, MlflowFiles files, Log& log);

}  // namespace kiln
