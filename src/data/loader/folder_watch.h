// Reads images so that an outage of the storage under the data folder does not make them bad: all
// threads then wait together until the folder answers again, up to a limit, once an outage.
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

// An image whose reading was given up in an outage for a stop signal, or for the end of its loader:
// it is not known to be bad.
class ReadCutShort : public ImageFault {
 public:
  ReadCutShort() : ImageFault("not read before the run ended") {}
};

// For one data folder. Where images are in archives, which stay open, these have to answer. Any
// number of threads.
class FolderWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    std::chrono::milliseconds wait = std::chrono::seconds(60);  // for an outage
    std::chrono::milliseconds between_looks = std::chrono::seconds(1);
  };
  // Receives warnings, one sentence each, from any thread.
  using Warn = std::function<void(const std::string&)>;

  FolderWatch(std::filesystem::path root, Limits limits, Warn warn)
      : root_(std::move(root)), limits_(limits), warn_(std::move(warn)) {}

  // read_image_bytes(). If it fails and the root does not answer either, waits until it does and
  // reads again; at the limit the image is bad after all, and nothing is waited for until the root
  // has answered again. Throws ReadCutShort at a stop signal, and once `closing` is set. Returns
  // how long the last attempt took.
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
  std::size_t looks_begun_ = 0, looks_done_ = 0;  // one at a time
  Clock::time_point next_look_, outage_began_;
};

}  // namespace kiln
