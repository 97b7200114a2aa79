// The sinks of a run, a maker each.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/log.h"
#include "report/record/run_sink.h"

namespace kiln {

// A run as the console and the driver log tell it: the plan, the progress, the closing block. The
// same words for the run itself and for `kiln watch`.

// `log` must outlive the sink. `page` is named at the end where the sink that writes it took all.
// To be added last: its end tells what the others have lost.
std::unique_ptr<RunSink> make_console(Log& log, const std::filesystem::path& page);

// `epochs.csv`: a row an epoch, a column a metric (metrics.h).

inline constexpr const char* kEpochsFileName = "epochs.csv";

// Begins the file anew; every row is written through. Throws std::runtime_error.
std::unique_ptr<RunSink> make_epochs_csv(const std::filesystem::path& path);

// TensorBoard's event file: the metrics as scalars, the confusion matrix and judged images as
// pictures, the options as hyperparameters.

// Begins a new event file in `folder`, which it makes, in place of those that kiln left there.
// Throws std::exception.
std::unique_ptr<RunSink> make_tensorboard(const std::filesystem::path& folder);

// A run's metrics for Kubeflow Pipelines.

// KFP 2: what its launcher puts in for `{executorInput: null}`, a JSON text. At the end the metrics
// of the saved epoch become metadata of the output artifact of type Metrics (or else the one named
// "metrics"), in `outputs.outputFile`, which the launcher reads and the Metrics tab shows. Throws
// Error kUserError where the text has no such artifact.
std::unique_ptr<RunSink> make_kfp_artifact(const std::string& executor_input);

// KFP 1: `{"metrics": [{"name", "numberValue", "format"}]}`, names in lower case with dashes. That
// format knows only finite numbers: others are left out.
std::unique_ptr<RunSink> make_kfp_metrics_file(const std::filesystem::path& path);

}  // namespace kiln
