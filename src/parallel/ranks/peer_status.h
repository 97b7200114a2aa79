// What a rank knows of the others beside the collectives, and how long it waits for one that does
// not come.
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
  bool patient = false;       // it may take long: the others wait as long as it answers
  std::string phase;
  std::optional<std::chrono::steady_clock::time_point> last_seen;  // empty: never
};

// The peers of all ranks, as rank `rank` sees them while it waits in its collective `ticket`.
struct PeerView {
  const std::vector<PeerStatus>& peers;  // [size]
  const std::vector<std::string>& hosts;
  int rank = 0;
  std::uint64_t ticket = 0;
  // A rank that has not answered for so long is told of as silent.
  std::chrono::duration<double> silence = std::chrono::seconds(10);
};

// In sentences: which ranks have not started the collective or do not answer, and what they do.
std::string missing_ranks(const PeerView& view);

// True while ranks are missing that all said that they take long, and still answer.
bool missing_are_patient(const PeerView& view);

// How long a collective may wait for the other ranks: after a while a warning says who is missing,
// and again as often; at the deadline the wait ends. One thread.
class StallWatch {
 public:
  struct Limits {
    double deadline_s = 300;
    double stall_warning_s = 60;
  };

  StallWatch(Limits limits, std::function<void(const std::string&)> warn);

  // Another collective waits now.
  void begin();
  // True when the other ranks should be asked again what they do.
  bool asks(double waited_s);
  // True when judge() has something to say.
  bool judges(double waited_s) const;
  // `waited_s` seconds after begin(). Warns; past the deadline, unless those who are missing said
  // that they take long, throws Error kTimeoutOccured with the whole story. `doing` is this rank's
  // phase; `view.silence` is set here.
  void judge(const std::string& collective, double waited_s, PeerView view,
             const std::string& doing);

 private:
  Limits limits_;
  std::function<void(const std::string&)> warn_;
  double ask_every_s_, asked_s_ = 0, warned_s_ = 0;
};

}  // namespace kiln
