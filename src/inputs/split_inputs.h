// --data-path: one dataset becomes the training and the validation dataset of a run.
#pragma once

#include <cstdint>

#include "base/log.h"
#include "config/run_config.h"
#include "inputs/training_inputs.h"

namespace kiln {

// How the images of --data-path are looked at; after some seconds the log hears how far that is.
// `log` must outlive it.
ScanPlan scan_plan(int num_threads, Log& log);

// Fills in `train`, `valid` and `split`. Throws as read_indexed_dataset() and split_dataset().
void read_split_inputs(const DataConfig& config, std::uint64_t seed, const ScanPlan& scan,
                       TrainingInputs& inputs);

// Logs how --data-path was split, and writes split.csv into the log folder, unless that
// is of a run that resumes. For rank 0; does nothing where nothing was split. Throws Error
// kFailedToWriteOutputs if the user has named the folder.
void write_split(const OutputConfig& output, const TrainingInputs& inputs, Log& log);

}  // namespace kiln
