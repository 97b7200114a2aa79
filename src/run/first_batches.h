// What the network sees: LOGS/first_batch.jpg, for people, with the first batches of rank 0 as they
// are after augmentation and mixing, their labels and shares.
#pragma once

#include <filesystem>
#include <vector>

#include "base/log.h"
#include "data/dataset/dataset.h"
#include "data/loader/device_uploader.h"
#include "predict/pictures.h"
#include "record/vocabulary.h"

namespace kiln {

// One thread.
class FirstBatches {
 public:
  // Sets aside the file of an earlier run. `set`, which the batches are of, and the log must
  // outlive it.
  FirstBatches(const Dataset& set, const Normalization& scaling, std::filesystem::path logs,
               Log& log);

  // Waits for the device and writes the file anew, for the first two batches; then does nothing.
  // Warns of failures.
  void operator()(const DeviceBatch& batch);

 private:
  const Dataset& set_;
  const Normalization scaling_;
  const std::filesystem::path logs_;
  Log& log_;
  int num_drawn_ = 0;  // batches
  std::vector<CaptionedPicture> pictures_;
};

}  // namespace kiln
