// Factories for the sinks of a run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/log.h"
#include "record/run_sink.h"

namespace kiln {

// The console and driver log of a run: the plan, progress and closing block. Used by the run itself
// and by `kiln watch`.

// `log` must outlive the sink. At the end the path `page` is shown if its sink lost nothing. Add
// this sink last: its end() reports what the other sinks have lost.
std::unique_ptr<RunSink> make_console(Log& log, const std::filesystem::path& page);

// `epochs.csv`: one row per epoch, one column per metric (metrics.h).

inline constexpr const char* kEpochsFileName = "epochs.csv";

// Rewrites the file when the first row is written; every row is flushed.
std::unique_ptr<RunSink> make_epochs_csv(const std::filesystem::path& path);

// TensorBoard's event file: metrics as scalars, the confusion matrix and predictions as images,
// options as hyperparameters.

// Creates `folder` and a new event file in it. Kiln's earlier event files there are removed when
// the first epoch is done. Throws std::exception.
std::unique_ptr<RunSink> make_tensorboard(const std::filesystem::path& folder);

// A run's metrics for Kubeflow Pipelines 2. `executor_input` is the JSON that its launcher
// substitutes for `{executorInput: null}`. At the end the metrics of the saved epoch are written as
// metadata of the output artifact of type Metrics (or else the one named "metrics") to
// `outputs.outputFile`, which the launcher reads and the Metrics tab shows. Throws Error kUserError
// if the JSON has no such artifact.
std::unique_ptr<RunSink> make_kfp_artifact(const std::string& executor_input);

}  // namespace kiln
