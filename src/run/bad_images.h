// Images that loading found bad (ImageFault), which are skipped up to an allowance. What else a run
// leaves out: files and images that are not listed, LeftOut::Reason (dataset/listing.h, with texts
// in dataset/notes.cpp); images without a label in --labels (dataset/label_list.cpp); what a split
// drops (data/split/split_dataset.cpp); the rest of an epoch (data/loader/sampler.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "train/state.h"

namespace kiln {

// The bad images found during a run: logs each once, counts them against the allowance, and records
// them for training.json.
class BadImageLedger {
 public:
  // `name` is "training" or "validation". With `is_shard` the dataset is this rank's own shard, and
  // `faults` receives only its faults; otherwise it receives those of all ranks. All arguments must
  // outlive the ledger.
  BadImageLedger(std::string name, const Dataset& set, bool is_shard, OnBadImage on_bad_image,
                 Allowance allowed, ImageFaults& faults)
      : name_(std::move(name)),
        set_(set),
        is_shard_(is_shard),
        on_bad_image_(on_bad_image),
        allowed_(allowed.of(set.num_images())),
        faults_(faults) {}

  // Records and logs new faults; ranks above 0 log them to their file only. Throws Error
  // kInvalidDataset when the allowance is exceeded, or at the first one with --on-bad-image fail.
  // The message names the bad images. When the allowance is exceeded, it also names bad images that
  // the run has not reached yet, as far as 5 seconds suffice to find them, so that all can be fixed
  // at once.
  void record(const std::vector<BadImage>& faults, bool leads, Log& log);

  // Records the new faults of all ranks; if one rank fails, all do. A collective.
  void record_on_all_ranks(const std::vector<BadImage>& mine, World& world, Log& log);

 private:
  void add(const BadImage& fault);
  bool check_rest();
  std::string names() const;

  std::string name_;
  const Dataset& set_;
  bool is_shard_;
  OnBadImage on_bad_image_;
  std::int64_t allowed_;
  ImageFaults& faults_;
};

}  // namespace kiln
