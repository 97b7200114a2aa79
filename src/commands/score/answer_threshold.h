// From which confidence on a model answers: --min-confidence, or --answer-at by what validation
// showed.
#pragma once

#include "base/calibration.h"
#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// 0: always. Throws Error kUserError where validation cannot say.
double answer_threshold(const ScoreConfig& config, const Calibration& calibration);

// What --answer-at comes to on validation, and whether so much can be promised. Nothing without it.
void log_answer_threshold(const ScoreConfig& config, const Calibration& calibration, Log& log);

}  // namespace kiln
