// From which confidence on a model answers: --min-confidence, or --answer-at by what validation
// showed.
#pragma once

#include "base/calibration.h"
#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// 0: always. Throws Error kUserError where validation cannot say.
double answer_threshold(const ScoreConfig& config, const Calibration& calibration);

// Logs what --answer-at gives on validation, and whether that is reliable. Nothing without it.
void tell_answer_threshold(const ScoreConfig& config, const Calibration& calibration, Log& log);

}  // namespace kiln
