// Writes checkpoints on a background thread while training continues.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "store/checkpoint.h"

namespace kiln {

// Writes one checkpoint at a time and does not queue. To be called from one thread.
class CheckpointWriter {
 public:
  // The folder must outlive it.
  explicit CheckpointWriter(CheckpointFolder& folder);
  ~CheckpointWriter();  // waits
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  bool is_busy() const;
  // Waits for the checkpoint being written, if any, then starts the new one. What `view` refers to
  // must not change until the writer is no longer busy.
  void begin(CheckpointView view);
  void wait();

  // The reason for the most recent failure since the last call; empty if there was none.
  std::string take_failure();

 private:
  void work();

  CheckpointFolder& folder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex.
  CheckpointView view_;
  bool busy_ = false, ending_ = false;
  std::string failure_;

  std::thread thread_;  // last: it uses the other members
};

}  // namespace kiln
