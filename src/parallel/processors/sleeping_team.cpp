// Compiled with OpenMP, so it must not include LibTorch's headers: they would compile differently
// than in the other files.
#include "parallel/processors/sleeping_team.h"

#include <pthread.h>

#include <vector>

namespace kiln {
namespace {

// Throws std::system_error if `count` threads cannot be created; libgomp would end the process.
void try_threads(int count) {
  std::mutex gate;
  std::vector<std::jthread> threads;  // joined after the gate opens and before it is destroyed
  const std::lock_guard closed(gate);
  for (int i = 0; i < count; ++i) threads.emplace_back([&] { const std::lock_guard open(gate); });
}

}  // namespace

SleepingTeam::SleepingTeam(int size) {
  try_threads(size);
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
