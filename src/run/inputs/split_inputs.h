// --data-path: a single dataset is split into the training and validation datasets of a run.
#pragma once

#include <cstdint>

#include "base/log.h"
#include "cli/run_config.h"
#include "run/inputs/sources.h"

namespace kiln {

// How to scan the images of --data-path. After a few seconds the scan logs its progress to `log`,
// which must outlive the plan.
ScanPlan scan_plan(int num_threads, Log& log);

// Fills in `train`, `valid` and `split`. Throws as read_indexed_dataset() and split_dataset() do.
void read_split_inputs(const DataConfig& config, std::uint64_t seed, const ScanPlan& scan,
                       Sources& sources);

// Logs how --data-path was split, and writes split.csv into the log folder unless another program
// is writing its record there. For rank 0; does nothing if nothing was split. Throws Error
// kFailedToWriteOutputs if the user named the folder.
void write_split(const OutputConfig& output, const Sources& sources, Log& log);

}  // namespace kiln
