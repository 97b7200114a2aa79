// Bad images met during a run: named once, counted against the allowance, remembered for
// training.json.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "config/run_config.h"
#include "data/batch_loader.h"
#include "data/image_set.h"
#include "parallel/world.h"
#include "train/state.h"

namespace kiln {

class BadImageLedger {
 public:
  // `name` is "training" or "validation". With `is_shard` the set is this rank's own, and its
  // faults stay here; else all ranks note the faults of all. `faults` is where they are kept. All
  // that is given must outlive the ledger.
  BadImageLedger(std::string name, const ImageSet& set, bool is_shard, const DataConfig& config,
                 ImageFaults& faults);

  // Notes what is new. Throws Error kInvalidDataset naming the bad images when the allowance is
  // passed, or at the first with --on-bad-image fail. A rank that does not lead names them in its
  // log file only.
  void note(const std::vector<BadImage>& faults, bool leads, Log& log);

  // A collective: notes the new faults of all ranks, and all leave together where one refuses.
  void note_everywhere(const std::vector<BadImage>& mine, World& world, Log& log);

 private:
  [[noreturn]] void refuse() const;

  std::string name_;
  const ImageSet& set_;
  bool is_shard_;
  OnBadImage on_bad_image_;
  std::int64_t allowed_;
  ImageFaults& faults_;
};

}  // namespace kiln
