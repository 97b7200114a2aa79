// Whether the disks have room for what a run writes at its end: known before the first step, not
// after the last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "run/prepare/prepare.h"
#include "train/state.h"

namespace kiln {

// Bytes that will be written below a folder.
struct RoomNeed {
  std::filesystem::path folder;
  std::uint64_t bytes = 0;
  std::string what;  // "the model"
};

// A sentence for each file system that has less room than is needed there in total. File systems
// that do not say how much they have are taken to have enough.
std::vector<std::string> shortages(const std::vector<RoomNeed>& needs);

// The room for a run's model and checkpoints. Used on rank 0.
class Room {
 public:
  // Both must outlive it.
  Room(const TrainingJob& job, const TrainState& state);

  // Throws Error kFailedToWriteOutputs if there is too little.
  void require() const;
  // Warns if there is too little by now, once until there is enough again.
  void watch();

 private:
  std::vector<std::string> faults() const;

  const TrainingJob& job_;
  std::uint64_t model_bytes_ = 0, checkpoint_bytes_ = 0, best_bytes_ = 0;
  bool is_short_ = false;
};

}  // namespace kiln
