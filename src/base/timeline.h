// What the threads of a process did, and when: spans on named tracks, in the format that Chrome's
// trace viewer and Perfetto open ("Trace Event Format", as JSON). Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // The tracks that come first, in this order; others follow.
  static constexpr const char* kSteps = "steps";
  static constexpr const char* kDevice = "device";
  static constexpr const char* kSums = "all-reduces";

  // Those that come later are counted and dropped: a timeline is bounded, as its file is.
  static constexpr std::size_t kMostSpans = 50'000;
  static constexpr std::size_t kMostBytes = kMostSpans * 120;

  // Spans are kept from begin() to end(). Who adds many asks is_on() first, which costs nothing.
  void begin() { is_on_ = true; }
  void end() { is_on_ = false; }
  bool is_on() const { return is_on_; }

  // On one track spans follow each other or lie within each other. Names are plain ASCII without
  // quotes.
  void add(std::string_view track, std::string name, Time begin, Time end);

  // Of the process with this rank. Times are the system's monotonic clock, the same for all
  // processes of a host.
  std::string json(int rank) const;

 private:
  struct Span {
    std::size_t track = 0;
    std::string name;
    Time begin, end;
  };

  std::atomic<bool> is_on_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, std::size_t, std::less<>> tracks_;  // name -> number, by first span
  std::vector<Span> spans_;
  std::size_t num_dropped_ = 0;
};

}  // namespace kiln
