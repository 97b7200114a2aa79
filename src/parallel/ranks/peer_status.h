// What a rank knows about the others independently of collectives, and how long it waits for
// missing ranks.
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
  bool patient = false;       // in a long phase: the others wait while it responds
  std::string phase;
  std::optional<std::chrono::steady_clock::time_point> last_seen;  // empty: never
  bool is_watched = true;  // this rank asks it; if not, others do
  // The oldest collective that it has not finished: its number among all, and name. 0: none.
  std::uint64_t place = 0;
  std::string collective = {};
};

// The status of all ranks as seen by rank `rank` while it waits in its collective `ticket`.
struct PeerView {
  const std::vector<PeerStatus>& peers;  // [size]
  const std::vector<std::string>& hosts;
  int rank = 0;
  std::uint64_t ticket = 0;
  // A rank that has not responded for this long counts as silent.
  std::chrono::duration<double> silence = std::chrono::seconds(10);
  std::string collective = {};  // the name of this rank's
};

// Sentences that say which ranks have not started the collective, are in another one instead, or
// are not responding, and their phases; of many, the first few.
std::string missing_ranks(const PeerView& view);

// True if every missing rank announced a long phase and still responds; and if none of the ranks
// that this one watches is missing, since then those that watch the others end the wait.
bool missing_are_patient(const PeerView& view);

// Detects that this process was suspended (SIGSTOP, a paused container), which must not count as
// waiting for other ranks. Two turns of a loop are then further apart than `longest`, which no turn
// normally takes. One thread.
class SuspensionWatch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit SuspensionWatch(Clock::duration longest) : longest_(longest) {}

  // Call at the start of each turn. Returns how long the process was suspended since the last turn
  // began; 0 if it was not.
  Clock::duration turn(Clock::time_point now);
  // Call when the loop resumes after being idle.
  void restart(Clock::time_point now) { last_turn_ = now; }

 private:
  const Clock::duration longest_;
  std::optional<Clock::time_point> last_turn_;
};

struct StallLimits {
  double deadline_s = 300;
  double stall_warning_s = 60;
};

// Limits how long a collective waits for other ranks. A warning naming the missing ranks is
// repeated at a fixed interval; the wait ends at the deadline. One thread.
class StallWatch {
 public:
  StallWatch(StallLimits limits, std::function<void(const std::string&)> warn);

  // Call when a different collective begins to wait.
  void begin() { asked_s_ = warned_s_ = 0; }
  // True when the other ranks' status should be queried again.
  bool asks(double waited_s);
  // True when judge() has something to report.
  bool judges(double waited_s) const {
    return waited_s - warned_s_ > limits_.stall_warning_s || waited_s > limits_.deadline_s;
  }
  // `waited_s` seconds after begin(). Warns; past the deadline, unless all missing ranks announced
  // a long phase, throws Error kTimeoutOccured with the details. `doing` is this rank's phase;
  // `view.silence` is set here.
  void judge(const std::string& collective, double waited_s, PeerView view,
             const std::string& doing);

 private:
  StallLimits limits_;
  std::function<void(const std::string&)> warn_;
  double ask_every_s_, asked_s_ = 0, warned_s_ = 0;
};

}  // namespace kiln
