// Factories for the sinks of a run that write files; report/console.h has the console.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "record/run_sink.h"
#include "record/run_summary.h"

namespace kiln {

inline constexpr const char* kEpochsFileName = "epochs.csv";

// `epochs.csv`: one row per epoch, one column per metric (epoch_metrics()). Rewrites the file when
// the first row is written; every row is flushed.
std::unique_ptr<RunSink> make_epochs_csv(const std::filesystem::path& path);

// The metrics of the saved epoch for Kubeflow Pipelines 2, whose launcher substitutes
// `executor_input`, JSON, for `{executorInput: null}`: at the end, as metadata of the output
// artifact of type Metrics (or else named "metrics") in `outputs.outputFile`, which the Metrics tab
// shows. Throws Error kUserError if the JSON has no such artifact.
std::unique_ptr<RunSink> make_kfp_artifact(const std::string& executor_input);

// TensorBoard's event file: metrics as scalars, the confusion matrix and predictions as images,
// options as hyperparameters. Creates `folder` and a new event file in it. Kiln's earlier event
// files there are removed when the first epoch is done. Throws std::exception.
std::unique_ptr<RunSink> make_tensorboard(const std::filesystem::path& folder);

// The records of an event file, each a complete TFRecord, to be appended to it. `time`: Unix
// seconds.
std::string first_event(double time);  // first in every file
std::string options_event(const TextPairs& options, double time);
std::string scalars_event(const std::vector<Metric>& metrics, double time, long long step);
std::string pictures_event(const ValidationDetails& details,
                           const std::vector<std::string>& classes, double time, long long step);
std::string end_event(bool succeeded, double time);

// "events.out.tfevents.1767323045.myhost.kiln".
std::string event_file_name(double time);
// Whether this is the name of one of Kiln's event files.
bool is_event_file_name(const std::string& name);

}  // namespace kiln
