// The parts of the stand-in device (README.md): streams that are threads, memory that is poisoned,
// and the account of what was asked of it.
#pragma once

#include <c10/core/Allocator.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace kiln::fake {

using Clock = std::chrono::steady_clock;

// KILN_STAND_IN_name in the environment, as a number.
long setting(const char* name, long otherwise);
c10::DeviceIndex num_devices();
inline thread_local c10::DeviceIndex current_device = 0;

// Counts what the process asks of the device, by kind: operator, upload, download, wait (of the
// host), sum. KILN_STAND_IN_REPORT=FILE: written to FILE.PID at the end, "COUNT KIND NAME" a line.
void note(const std::string& kind, const std::string& name);

// A point in a stream that has been reached or not.
class Event {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    when_ = Clock::now();
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  double seconds_until(const Event& later) const {
    return std::chrono::duration<double>(later.when_ - when_).count();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Clock::time_point when_;  // it was reached
};
using SharedEvent = std::shared_ptr<Event>;

// Tasks in order, on a thread of their own.
class Queue {
 public:
  ~Queue();
  // `delay_us`: how much later than it could the task runs.
  void push(std::function<void()> task, long delay_us = 0);
  SharedEvent mark();  // set after all that was pushed so far
  void drain();
  bool is_idle();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t num_pushed_ = 0, num_done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

// The calling thread's current stream. Its kernels run on the host, at once, after what the stream
// waits for: before each one the queue is drained.
Queue& current_queue();

// Memory of the device: NaN while it is fresh, and again once it is freed, in its stream's order.
c10::Allocator& memory();
long long peak_bytes();
// Of all that is on the device, also what a CPU's kernel has allocated. Throws if none is left.
void take_bytes(std::size_t bytes);
void give_bytes(std::size_t bytes);

c10::Allocator& pinned_memory();
void* new_pinned(int device, std::size_t bytes);
void free_pinned(void* data);
bool is_pinned(const void* data);

}  // namespace kiln::fake
