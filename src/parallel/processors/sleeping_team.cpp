// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "parallel/processors/sleeping_team.h"

#include <pthread.h>

#include <chrono>
#include <iterator>
#include <vector>

#include "base/files.h"

namespace kiln {

void require_threads(int count) {
  constexpr const char* kRunning = "/proc/self/task";
  const std::size_t before = names_in(kRunning).size();
  {
    std::mutex mutex;
    std::condition_variable_any never;
    std::vector<std::jthread> threads;
    while (std::ssize(threads) < count)
      threads.emplace_back([&](const std::stop_token& end) {
        std::unique_lock lock(mutex);
        never.wait(lock, end, [] { return false; });
      });
  }
  // The kernel counts a thread until it is gone, a moment after it can be joined.
  for (int turn = 0; turn < 1000 && names_in(kRunning).size() > before; ++turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

SleepingTeam::SleepingTeam(int size) {
  require_threads(size);
  leader_ = std::jthread([this, size](const std::stop_token& stop) { lead(size, stop); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sleeps_; });
}

void SleepingTeam::lead(int size, const std::stop_token& stop) {
  ::pthread_setname_np(::pthread_self(), "sleeping team");  // inherited by the team
  int present = 0;
#pragma omp parallel num_threads(size)
  {
#pragma omp atomic
    ++present;  // the compiler would remove an empty region
  }
  // The team's threads stay until their leader ends.
  std::unique_lock lock(mutex_);
  sleeps_ = present > 0;
  changed_.notify_all();
  changed_.wait(lock, stop, [&] { return stop.stop_requested(); });
}

}  // namespace kiln
