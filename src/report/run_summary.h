// What the record of a run comes to: the figures that reports and comparisons begin with.
#pragma once

#include <string>

#include "report/confidence.h"
#include "report/run_record.h"

namespace kiln {

struct RunSummary {
  const EpochRecord* best = nullptr;  // the best top-1, then the lowest validation loss
  const EpochRecord* last = nullptr;  // both null before the end of the first epoch
  double images_per_second = 0;       // over all training time; 0: unknown
  double seconds = 0;                 // of the run, as far as it went
  StepTimes times;                    // sums over the epochs
  double train_seconds = 0, valid_seconds = 0;
  int largest_class = -1;                  // of the validation images; -1: their counts are unknown
  double largest_share = 0;                // the accuracy of always answering it
  long long num_train = 0, num_valid = 0;  // images
};

// Points into `run`.
RunSummary summary_of(const RunRecord& run);

// The epoch whose model was kept; nullptr: none was. Points into `run`.
const EpochRecord* kept_epoch(const RunRecord& run);

Interval top1_interval(const Totals& totals);
Interval top5_interval(const Totals& totals);

// "finished", "stopped early", "stopped by a signal", "failed", "running or killed".
std::string status_text(const RunEnd& end);

// "resnet18 on cifar10-small": the model, and the folder that holds the data.
std::string run_title(const RunStart& start);

// "71.3 %"; "100 %" and "0 %" only for just that.
std::string percent(double share);

// "2026-03-01 14:05 UTC".
std::string utc_text(double unix_seconds);

}  // namespace kiln
