// The confidence from which on a model answers: --min-confidence, or derived from --answer-at and
// the model's validation results.
#pragma once

#include "base/log.h"
#include "cli/run_config.h"
#include "record/calibration.h"

namespace kiln {

// 0: the model always answers. Throws Error kUserError if the validation results do not give a
// threshold for --answer-at.
double answer_threshold(const ScoreConfig& config, const Calibration& calibration);

// Logs what --answer-at amounts to on validation, and warns if there are too few validation answers
// to rely on it. Does nothing without --answer-at.
void log_answer_threshold(const ScoreConfig& config, const Calibration& calibration, Log& log);

}  // namespace kiln
