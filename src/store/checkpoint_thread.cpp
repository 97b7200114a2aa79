#include "store/checkpoint_thread.h"

#include <exception>
#include <utility>

namespace kiln {

CheckpointWriter::CheckpointWriter(CheckpointFolder& folder)
    : folder_(folder), thread_([this] { work(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool CheckpointWriter::is_busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

void CheckpointWriter::begin(CheckpointView view) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });
    view_ = std::move(view);
    busy_ = true;
  }
  changed_.notify_all();
}

void CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
}

std::string CheckpointWriter::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, {});
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return busy_ || ending_; });
    if (!busy_) return;
    lock.unlock();
    std::string failure;
    try {
      folder_.write(view_);
    } catch (const std::exception& fault) {
      failure = fault.what();
    }
    lock.lock();
    if (!failure.empty()) failure_ = std::move(failure);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace kiln
