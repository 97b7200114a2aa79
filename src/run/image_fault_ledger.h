// Bad images met during a run: named once, counted against the allowance, remembered for
// training.json.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/training_record.h"
#include "config/run_config.h"
#include "data/batch_loader.h"
#include "data/image_set.h"

namespace kiln {

class ImageFaultLedger {
 public:
  // `name` is "training" or "validation". `set` and `log` must outlive the ledger. All ranks note
  // the same faults; one that does not lead names them in its log file only.
  ImageFaultLedger(std::string name, const ImageSet& set, const TrainConfig& config, bool leads,
                   Log& log);

  // Notes what is new. Throws Error kInvalidDataset naming the bad images when the allowance is
  // passed, or at the first with --on-bad-image fail.
  void note(const std::vector<BadImage>& faults);

  int num_bad() const { return num_bad_; }
  int num_damaged() const { return static_cast<int>(records_.size()) - num_bad_; }
  const std::vector<ImageFaultRecord>& records() const { return records_; }

 private:
  [[noreturn]] void refuse() const;
  void say(const std::string& text) { leads_ ? log_.warning(text) : log_.info(text); }

  std::string name_;
  const ImageSet& set_;
  OnBadImage on_bad_image_;
  std::int64_t allowed_;
  bool leads_;
  Log& log_;
  std::set<std::uint32_t> seen_;
  std::vector<ImageFaultRecord> records_;
  int num_bad_ = 0;
};

}  // namespace kiln
