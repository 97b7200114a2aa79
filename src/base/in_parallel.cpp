#include "base/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln {

void in_parallel(std::size_t count, int num_threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        next = count;
        if (i >= failed) continue;
        failed = i;
        failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto wanted = static_cast<std::size_t>(std::max(1, num_threads));
    for (std::size_t t = 1; t < std::min(count, wanted); ++t) threads.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kiln
