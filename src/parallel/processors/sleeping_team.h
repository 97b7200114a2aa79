// A team of OpenMP threads that only sleep, to raise libgomp's thread count.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace kiln {

// The threads sleep from the end of the constructor until the destructor.
class SleepingTeam {
 public:
  // Throws std::system_error if the system does not allow this many threads.
  explicit SleepingTeam(int size);
  ~SleepingTeam();
  SleepingTeam(const SleepingTeam&) = delete;
  SleepingTeam& operator=(const SleepingTeam&) = delete;

 private:
  void lead(int size);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool sleeps_ = false, may_end_ = false;
  std::thread leader_;
};

}  // namespace kiln
