// What the threads of a process did, and when: spans on named tracks, in the JSON "Trace Event
// Format" of Chrome's trace viewer and Perfetto. Thread-safe.
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

  // The first tracks, in this order; other tracks follow.
  static constexpr const char* kSteps = "steps";
  static constexpr const char* kDevice = "device";
  static constexpr const char* kSums = "all-reduces";

  // Further spans are counted and dropped, so that the timeline and its file stay bounded.
  static constexpr std::size_t kMaxSpans = 50'000;
  static constexpr std::size_t kMaxBytes = kMaxSpans * 120;

  // Spans are recorded between begin() and end(). Callers that add many should check is_on() first,
  // which is cheap.
  void begin() { is_on_ = true; }
  void end() { is_on_ = false; }
  bool is_on() const { return is_on_; }

  // Spans on one track either follow each other or nest. Names are plain ASCII without quotes.
  void add(std::string_view track, std::string name, Time begin, Time end);

  // The timeline as JSON, for the process with this rank. Times come from the system's monotonic
  // clock, which all processes of a host share.
  std::string json(int rank) const;

 private:
  struct Span {
    std::size_t track = 0;
    std::string name;
    Time begin, end;
  };

  std::atomic<bool> is_on_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, std::size_t, std::less<>> tracks_;  // name -> number, by first use
  std::vector<Span> spans_;
  std::size_t num_dropped_ = 0;
};

}  // namespace kiln
