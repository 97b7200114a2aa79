// Writes checkpoints on its own thread, so that training continues.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "store/checkpoint.h"

namespace kiln {

// One at a time, none waiting. One thread calls it.
class CheckpointWriter {
 public:
  // The folder must outlive it.
  explicit CheckpointWriter(CheckpointFolder& folder);
  ~CheckpointWriter();  // waits
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  bool is_busy() const;
  // Waits for the one under way, if any; then the new one begins. What `view` refers to must stay
  // as it is until the writer is no longer busy.
  void begin(CheckpointView view);
  void wait();

  // Why a checkpoint could not be written since the last call, the last one's reason; or empty.
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

  std::thread thread_;  // last: it uses the others
};

}  // namespace kiln
