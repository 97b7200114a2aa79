// A team of OpenMP threads that only sleep, to raise libgomp's thread count.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace kiln {

// Throws std::system_error unless this process may have `count` more threads at a time: LibTorch
// waits forever, and libgomp ends the process, if they cannot start theirs.
void require_threads(int count);

// The threads sleep from the end of the constructor until the destructor.
class SleepingTeam {
 public:
  // Throws std::system_error if the system does not allow this many threads.
  explicit SleepingTeam(int size);

 private:
  void lead(int size, const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool sleeps_ = false;
  std::jthread leader_;  // declared last: it uses the other members
};

}  // namespace kiln
