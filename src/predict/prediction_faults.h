// Tracks bad and damaged images among those given to a model.
#pragma once

#include <string>

#include "base/log.h"
#include "cli/run_config.h"

namespace kiln {

// Counts faulty images, names the first ones in the log, and fails if more are bad than allowed.
// One thread; the log must outlive it.
class PredictionFaults {
 public:
  PredictionFaults(Allowance allowed, Log& log) : allowed_(allowed), log_(log) {}

  // A bad image has no answer; a damaged one is used as far as it can be decoded.
  void note(const std::string& path, const std::string& fault, bool is_bad);

  // Throws Error kInvalidDataset if more of the `num_images` images are bad than allowed.
  void check(long long num_images) const;
  // Throws Error kInvalidDataset if all images are bad.
  void require_any_good(long long num_images) const;

  // Restores the counts of an earlier process that this one continues; `first_bad` is its
  // first_bad().
  void resume(long long num_bad, long long num_damaged, std::string first_bad);

  long long num_bad() const { return num_bad_; }
  long long num_damaged() const { return num_damaged_; }
  // The first bad images with their faults, for a message.
  const std::string& first_bad() const { return first_; }

 private:
  const Allowance allowed_;
  Log& log_;
  long long num_bad_ = 0, num_damaged_ = 0;
  std::string first_;  // of the bad images
};

}  // namespace kiln
