// A run's metrics for Kubeflow Pipelines.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "report/run_sink.h"

namespace kiln {

// KFP 2: what its launcher puts in for `{executorInput: null}`, a JSON text. At the end the metrics
// of the saved epoch become metadata of the output artifact of type Metrics (or else the one named
// "metrics"), in `outputs.outputFile`, which the launcher reads and the Metrics tab shows. Throws
// Error kUserError where the text has no such artifact.
std::unique_ptr<RunSink> make_kfp_artifact(const std::string& executor_input);

// KFP 1: `{"metrics": [{"name", "numberValue", "format"}]}`, names in lower case with dashes. That
// format knows only finite numbers: others are left out.
std::unique_ptr<RunSink> make_kfp_metrics_file(const std::filesystem::path& path);

}  // namespace kiln
