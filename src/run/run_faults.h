// What goes wrong while a run is under way: bad images, which may be passed over up to an
// allowance, and faults that end it.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/training_record.h"
#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "parallel/ranks/world.h"
#include "train/state.h"

namespace kiln {

// Bad images met during a run: named once, counted against the allowance, remembered for
// training.json.
class BadImageLedger {
 public:
  // `name` is "training" or "validation". With `is_shard` the set is this rank's own, and its
  // faults stay here; else all ranks note the faults of all. `faults` is where they are kept. All
  // that is given must outlive the ledger.
  BadImageLedger(std::string name, const Dataset& set, bool is_shard, const DataConfig& config,
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
  const Dataset& set_;
  bool is_shard_;
  OnBadImage on_bad_image_;
  std::int64_t allowed_;
  ImageFaults& faults_;
};

// What can go wrong while a run is under way, in words that say what to do.

// A loss of some rank is not finite; `first_bad_step` is this rank's first such step, 0 for none. A
// collective. Throws Error kFailedToCompleteOperation on rank 0, with the first such step of all.
[[noreturn]] void throw_diverged(World& world, const StepRecord& at, int first_bad_step);

// Numbers of a whole epoch that nobody can go on with. Throws Error kInvalidDataset when no image
// could be decoded, kFailedToCompleteOperation when the validation loss is not finite.
void check_epoch(const EpochRecord& record, int batch_size);

// `failure` itself, or an Error with a remedy where the system had no more of something.
std::exception_ptr explained(const std::exception_ptr& failure);

}  // namespace kiln
