// Compiled with OpenMP; without LibTorch's headers, which would differ from those of other files.
#include "process/sleeping_team.h"

#include <pthread.h>

#include <vector>

namespace kiln {
namespace {

// libgomp ends the process where it cannot create a thread.
void require_threads(int count) {
  std::mutex gate;
  std::vector<std::jthread> threads;  // joined before the gate is gone, after it is open
  const std::lock_guard closed(gate);
  for (int i = 0; i < count; ++i) threads.emplace_back([&] { const std::lock_guard open(gate); });
}

}  // namespace

SleepingTeam::SleepingTeam(int size) {
  require_threads(size);
  leader_ = std::thread([this, size] { lead(size); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sleeps_; });
}

SleepingTeam::~SleepingTeam() {
  {
    const std::lock_guard lock(mutex_);
    may_end_ = true;
  }
  changed_.notify_all();
  leader_.join();
}

void SleepingTeam::lead(int size) {
  ::pthread_setname_np(::pthread_self(), "sleeping team");  // which the team inherits
  int present = 0;
#pragma omp parallel num_threads(size)
  {
#pragma omp atomic
    ++present;  // something to do: the compiler leaves empty regions out
  }
  // The threads of a leader's team stay until it ends.
  std::unique_lock lock(mutex_);
  sleeps_ = present > 0;
  changed_.notify_all();
  changed_.wait(lock, [&] { return may_end_; });
}

}  // namespace kiln
