// The designer's log lines, field for field: other programs parse them.
#pragma once

#include <string>
#include <vector>

#include "base/training_record.h"

namespace kiln {

// `Epoch: [1/3]<TAB>Iter: [1/2]<TAB>Avg_Time_Batch/Avg_Time_Epoch(s): 0.281/0.281<TAB>…`
std::string iteration_line(const StepRecord& record);

// `Epoch 1,train_ips 12.74,train_loss 1.292102,train_error 0.750000,valid_loss 1.11136,top1 acc
// 0.16667,…`
std::string epoch_line(const EpochRecord& record);

// `learning rate 0.05, train images/s 512.31`, and with several ranks how long gradients took.
std::string rates_line(const EpochRecord& record);

// What a terminal shows instead of these two, in 79 columns: `epoch 2: train loss 0.1160, top-1
// 95.62 %; valid loss 0.0283, top-1 98.00 %`.
std::string epoch_news(const EpochRecord& record);

// The live line of a running job.
struct LiveLine {
  double loss = 0, top1 = 0;  // of the epoch so far, as last printed
  int columns = 80;           // that the line may take
  bool utf8 = false;          // the bar may be drawn with block characters
};

// `epoch 3/20 [######....] 120/156  512 images/s  loss 1.2345  top-1 45.2 %  data wait 1 %  left 2
// min 10 s`; a narrow terminal gets less of it.
std::string progress_line(const StepRecord& timing, const LiveLine& live);

// `epoch 3/20 [###...] 12/40  validation`; of `at` the epoch and the step.
std::string validation_line(const StepRecord& at, const LiveLine& live);

// Of `kiln score`, after `done` of `total` images in this many seconds: `[######....] 1,200/5,000
// images  512 images/s  left 2 min 10 s`. `total` 0: unknown, so there is neither bar nor time
// left. Of those done `before` are not this job's, and took none of its time.
std::string scoring_line(long long done, long long total, double seconds, const LiveLine& live,
                         long long before = 0);

// One line per epoch under a heading, at most 20: the first, the last, the saved one, marked by a
// star, and some in between; then what the star means.
std::vector<std::string> epoch_table(const std::vector<EpochRecord>& epochs, int saved_epoch);

}  // namespace kiln
