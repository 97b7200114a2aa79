// The metrics of a run under the names that all sinks use: the original component's seven, and
// ours. Ours are grouped by the part before the slash.
#pragma once

#include <string>
#include <vector>

#include "record/training_record.h"

namespace kiln {

struct Metric {
  std::string name;  // letters, digits, '-', '/' and space, as allowed by MLflow and TensorBoard
  double value = 0;  // may be NaN or infinite
};

// Indexed by epoch number.
std::vector<Metric> epoch_metrics(const EpochRecord& epoch);
// Indexed by global_step().
std::vector<Metric> step_metrics(const StepRecord& step);

// Steps since training began, from 1.
long long global_step(const StepRecord& step);

// The metrics that Amazon SageMaker parses from the epoch line on the console.

// A JSON list of {"Name", "Regex"}, as MetricDefinitions of a training job; the first group of each
// expression is the value in epoch_line() (report/log_lines.h).
std::string metric_definitions();

}  // namespace kiln
