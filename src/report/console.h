// The console and driver log of a run: log lines that match the designer's field by field, since
// other programs parse them, and the console's own lines.
#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "record/run_sink.h"

namespace kiln {

// `Epoch: [1/3]<TAB>Iter: [1/2]<TAB>Avg_Time_Batch/Avg_Time_Epoch(s): 0.281/0.281<TAB>…`
std::string iteration_line(const StepRecord& record);

// `Epoch 1,train_ips 12.74,train_loss 1.292102,train_error 0.750000,valid_loss 1.11136,…`
std::string epoch_line(const EpochRecord& record);

// Values for the live line of a running job.
struct LiveLine {
  double loss = 0, top1 = NAN;  // over the epoch so far, as last printed; NaN: none yet
  std::string right = "top-1";  // what `top1` counts
  int columns = 80;             // available for the line
  bool utf8 = false;            // draw the bar with block characters
};

// `epoch 3/20 [######....] 120/156 512 images/s loss 1.2345 top-1 45.2 % data wait 1 % left 2 min
// 10 s`; a narrow terminal shows fewer fields.
std::string progress_line(const StepRecord& timing, const LiveLine& live);

// For `kiln score`, after `done` of `total` images and `seconds` of work: `[######....] 1,200/5,000
// images 512 images/s left 2 min 10 s`. Without bar and time left if `total` is 0: unknown.
// `before` of the images were done by an earlier job, not in `seconds`.
std::string scoring_line(long long done, long long total, double seconds, const LiveLine& live,
                         long long before = 0);

// A heading and at most about 20 lines, one per epoch: the first, the last, the saved one, marked
// with a star, and some in between. A final line explains the star.
std::vector<std::string> epoch_table(const std::vector<EpochRecord>& epochs, int saved_epoch);

// The plan, progress and closing block of a run. `log` must outlive the sink. At the end the path
// `page` is shown if its sink lost nothing. Add this sink last: its end() reports what the other
// sinks have lost.
std::unique_ptr<RunSink> make_console(Log& log, const std::filesystem::path& page);

}  // namespace kiln
