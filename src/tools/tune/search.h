// Coordinate search over the settings of a job: tries each kind of setting in turn, combined with
// the best of the previous kinds. Plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// Options, named without dashes, and their values, in addition to those of the job itself.
using Settings = std::vector<std::pair<std::string, std::string>>;

// "threads 2, loader-threads 1", "as given".
std::string settings_text(const Settings& settings);

// A kind of setting, such as the number of threads.
struct Knob {
  std::string name;
  std::vector<Settings> candidates;  // besides the job's own
  std::string not_tried = {};        // why there are no candidates
};

struct TrialResult {
  double images_per_second = 0;
  long long peak_memory_bytes = 0;
  std::string fault = {};  // why there is no rate; empty: none
};

// One thread.
class Search {
 public:
  explicit Search(std::vector<Knob> knobs) : knobs_(std::move(knobs)) {}

  // What to try next: first the job unchanged. Empty if everything has been tried.
  std::optional<Settings> next() const;
  // Reports the result of the last next(). A candidate is adopted if it is at least 3 % faster,
  // which is more than two trials of the same settings differ.
  void note(const TrialResult& result);

  const Settings& best() const { return best_; }
  double best_rate() const { return best_rate_; }
  double first_rate() const { return first_rate_; }

 private:
  std::vector<Knob> knobs_;
  bool has_begun_ = false;
  std::size_t knob_ = 0, candidate_ = 0;
  Settings base_;  // the best of the knobs before this one
  Settings best_;
  double best_rate_ = 0, first_rate_ = 0;
};

// `base` with `changes` applied.
Settings changed(Settings base, const Settings& changes);

}  // namespace kiln
