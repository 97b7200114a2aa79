// The epoch line's figures as Amazon SageMaker reads them off the console.
#pragma once

#include <string>

namespace kiln {

// A JSON list of {"Name", "Regex"}, as MetricDefinitions of a training job; the first group of each
// expression is the value in epoch_line() (report/lines.h).
std::string metric_definitions();

}  // namespace kiln
