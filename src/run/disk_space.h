// Whether the disks have space for what a run writes at its end: known before the first step, not
// after the last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace kiln {

// Bytes that will be written below a folder.
struct SpaceNeed {
  std::filesystem::path folder;
  std::uint64_t bytes = 0;
  std::string what;  // "the model"
};

// A sentence for each file system that has less space than is needed there in total. File systems
// that do not say how much they have are taken to have enough.
std::vector<std::string> shortages(const std::vector<SpaceNeed>& needs);

// What a run will write.
struct SpacePlan {
  std::filesystem::path model_folder;
  std::filesystem::path checkpoint_folder;  // empty: no checkpoints
  std::uint64_t weights_bytes = 0;
  std::uint64_t features_bytes = 0;    // of all training images, by --keep-features
  std::uint64_t checkpoint_bytes = 0;  // of a checkpoint and the best epoch's weights
};

// The space for a run's model and checkpoints. Used on rank 0.
class DiskSpace {
 public:
  // The log must outlive it.
  DiskSpace(SpacePlan plan, Log& log) : plan_(std::move(plan)), log_(log) {}

  // Throws Error kFailedToWriteOutputs if there is too little, or if a file would be larger than
  // this process may write.
  void require() const;
  // Warns if there is too little by now, once until there is enough again.
  void watch();

 private:
  std::vector<std::string> faults() const;

  const SpacePlan plan_;
  Log& log_;
  bool is_short_ = false;
};

}  // namespace kiln
