// What a rank knows about the others apart from collectives, and how long it waits for missing
// ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct PeerStatus {
  std::uint64_t started = 0;  // collectives it has started so far
  bool patient = false;       // in a long phase: the others wait as long as it responds
  std::string phase;
  std::optional<std::chrono::steady_clock::time_point> last_seen;  // empty: never
};

// The status of all ranks as seen by rank `rank` while it waits in its collective `ticket`.
struct PeerView {
  const std::vector<PeerStatus>& peers;  // [size]
  const std::vector<std::string>& hosts;
  int rank = 0;
  std::uint64_t ticket = 0;
  // A rank that has not responded for this long counts as silent.
  std::chrono::duration<double> silence = std::chrono::seconds(10);
};

// In sentences: which ranks have not started the collective or are not responding, and their
// phases.
std::string missing_ranks(const PeerView& view);

// True if every missing rank announced a long phase and still responds.
bool missing_are_patient(const PeerView& view);

// Notices that this process was suspended (SIGSTOP, a paused container), which must not count as
// waiting: nobody is to blame. The turns of a loop are then much further apart than `longest`, the
// longest that one takes otherwise. One thread.
class SuspensionWatch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit SuspensionWatch(Clock::duration longest) : longest_(longest) {}

  // A turn begins. Returns how long the process was suspended since the last one began; else 0.
  Clock::duration turn(Clock::time_point now);
  // The loop was idle until now.
  void restart(Clock::time_point now) { last_turn_ = now; }

 private:
  const Clock::duration longest_;
  std::optional<Clock::time_point> last_turn_;
};

// Limits how long a collective waits for other ranks: a warning names missing ranks after an
// interval, and again at that interval; the wait ends at the deadline. One thread.
class StallWatch {
 public:
  struct Limits {
    double deadline_s = 300;
    double stall_warning_s = 60;
  };

  StallWatch(Limits limits, std::function<void(const std::string&)> warn);

  // A different collective is waiting now.
  void begin();
  // True when the other ranks' status should be queried again.
  bool asks(double waited_s);
  // True when judge() has something to report.
  bool judges(double waited_s) const;
  // `waited_s` seconds after begin(). Warns; past the deadline, unless all missing ranks announced
  // a long phase, throws Error kTimeoutOccured with the details. `doing` is this rank's phase;
  // `view.silence` is set here.
  void judge(const std::string& collective, double waited_s, PeerView view,
             const std::string& doing);

 private:
  Limits limits_;
  std::function<void(const std::string&)> warn_;
  double ask_every_s_, asked_s_ = 0, warned_s_ = 0;
};

}  // namespace kiln
