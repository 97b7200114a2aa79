// Reads images so that an outage of the storage behind the data folder does not turn them into bad
// images: all threads wait together until the folder responds again, up to a limit, once per
// outage.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "data/dataset/dataset.h"
#include "data/image/image.h"

namespace kiln {

// Reading of this image was given up during an outage, because of a stop signal or because its
// loader closed. It is not known to be bad.
class ReadCutShort : public ImageFault {
 public:
  ReadCutShort() : ImageFault("not read before the run ended") {}
};

// Watches one data folder, or the archives in it, which stay open. Thread-safe.
class FolderWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    std::chrono::milliseconds wait = std::chrono::seconds(60);  // how long to wait in an outage
    std::chrono::milliseconds between_looks = std::chrono::seconds(1);
  };
  // Receives warnings of one sentence each, from any thread.
  using Warn = std::function<void(const std::string&)>;

  FolderWatch(std::filesystem::path root, Limits limits, Warn warn)
      : root_(std::move(root)), limits_(limits), warn_(std::move(warn)) {}

  // As read_image_bytes(), but if that fails and the storage does not respond either, waits until
  // it does and reads again. When the wait reaches its limit the image counts as bad, and no
  // further waiting is done until the storage has responded again. Throws ReadCutShort on a stop
  // signal, and once `closing` is set. Returns how long the last attempt took.
  Clock::duration read(const Dataset& set, std::size_t i, std::string& buffer,
                       const std::atomic<bool>& closing);

 private:
  enum class State { kAnswers, kAwaited, kGivenUp };

  bool answers(const Dataset& set, std::size_t i, const std::atomic<bool>& closing);
  void look(const Dataset& set, std::size_t i, std::unique_lock<std::mutex>& lock);
  void learn(bool answered);

  const std::filesystem::path root_;
  const Limits limits_;
  const Warn warn_;

  std::mutex mutex_;
  std::condition_variable looked_;
  std::atomic<State> state_ = State::kAnswers;    // written under the mutex
  std::size_t looks_begun_ = 0, looks_done_ = 0;  // at most one in progress
  Clock::time_point next_look_, outage_began_;
};

}  // namespace kiln
