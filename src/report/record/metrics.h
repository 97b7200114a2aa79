// The metrics of a run by the names under which every sink shows them: the original component's
// seven, and our own. Own names group by what stands before the slash.
#pragma once

#include <string>
#include <vector>

#include "base/training_record.h"

namespace kiln {

struct Metric {
  std::string name;  // letters, digits, '-', '/' and space: what MLflow and TensorBoard take
  double value = 0;  // may be NaN or infinite
};

// Over the epoch's number.
std::vector<Metric> epoch_metrics(const EpochRecord& epoch);
// Over global_step().
std::vector<Metric> step_metrics(const StepRecord& step);

// Steps since training began, from 1.
long long global_step(const StepRecord& step);

// The epoch line's figures as Amazon SageMaker reads them off the console.

// A JSON list of {"Name", "Regex"}, as MetricDefinitions of a training job; the first group of each
// expression is the value in epoch_line() (report/sinks/log_lines.h).
std::string metric_definitions();

}  // namespace kiln
