// One short run of a job, in its own process, which is ended once its speed is known.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/tune/search.h"

namespace kiln {

struct TrialPlan {
  std::vector<std::string> words;    // [0] is the program's path
  std::filesystem::path log_path;    // where the run writes its record; removed before and after it
  std::filesystem::path model_path;  // where the run would write its model; removed likewise
  int steps = 30;                    // steps to measure, after `warm_up` steps
  int warm_up = 5;
  double max_seconds = 300;
};

struct TrialOutcome {
  TrialResult result;
  double loss = 0;  // mean of the training loss over the steps that were measured
  bool was_stopped = false;
};

// Runs the trial until its steps have been measured, it has ended, or `must_stop()` returns true.
// Whatever happens to this process, nothing of the trial keeps running. A trial that cannot run
// returns a fault; throws only what SupervisedProcess throws.
TrialOutcome run_trial(const TrialPlan& plan, const std::function<bool()>& must_stop);

}  // namespace kiln
