// The designer's log lines, field for field: other programs parse them.
#pragma once

#include <string>

#include "base/training_record.h"

namespace kiln {

// `Epoch: [1/3]<TAB>Iter: [1/2]<TAB>Avg_Time_Batch/Avg_Time_Epoch(s): 0.281/0.281<TAB>…`
std::string iteration_line(const StepRecord& record);

// `Epoch 1,train_ips 12.74,train_loss 1.292102,train_error 0.750000,valid_loss 1.11136,top1 acc
// 0.16667,…`
std::string epoch_line(const EpochRecord& record);

// `learning rate 0.05, train images/s 512.31`, and with several ranks how long gradients took.
std::string rates_line(const EpochRecord& record);

// One short line for a terminal: epoch, step, images/s, loss of the last printed step, data wait,
// time left.
std::string progress_line(const StepRecord& timing, double last_loss);

// "1 h 02 min", "3 min 20 s", "4.2 s".
std::string duration_text(double seconds);
// "1.2 GB", "820 MB".
std::string bytes_text(long long bytes);
// "11,699,132".
std::string grouped(long long number);

}  // namespace kiln
