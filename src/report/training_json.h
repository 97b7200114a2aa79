// training.json: what a training run was asked, saw and did.
#pragma once

#include <string>

#include "report/run_record.h"

namespace kiln {

// `run.end` is not looked at: the file is written before the run has ended.
std::string format_training_json(const RunRecord& run, const RunEnd& end);

}  // namespace kiln
