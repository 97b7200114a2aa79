// One short run of a job, as a process of its own that is ended once its pace is known.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tune/search.h"

namespace kiln {

struct TrialPlan {
  std::vector<std::string> words;    // [0] is the program's path
  std::filesystem::path log_path;    // where the run writes its record; removed before and after
  std::filesystem::path model_path;  // where it would write its model, likewise
  int steps = 30;                    // to measure, after `warm_up` of them
  int warm_up = 5;
  double most_seconds = 300;
};

struct TrialOutcome {
  TrialResult result;
  double loss = 0;  // mean of the training loss over the steps that were measured
  bool was_stopped = false;
};

// Runs it until its steps have been measured, it has ended, or `must_stop()`. Whatever happens to
// this process, nothing of the trial goes on. Trials that cannot run have a fault; throws only what
// SupervisedProcess does.
TrialOutcome run_trial(const TrialPlan& plan, const std::function<bool()>& must_stop);

}  // namespace kiln
