// Which settings of a job to try, one after the other: each kind of setting in turn, with the best
// of the kinds before it. Plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// Options without dashes, with their values; those of the job itself are not among them.
using Settings = std::vector<std::pair<std::string, std::string>>;

// "threads 2, loader-threads 1", "as given".
std::string settings_text(const Settings& settings);

// A kind of setting, such as the number of threads.
struct Knob {
  std::string name;
  std::vector<Settings> candidates;  // beside what the job has
  std::string not_tried = {};        // why there are none
};

struct TrialResult {
  double images_per_second = 0;
  long long peak_memory_bytes = 0;
  std::string fault = {};  // instead of a rate
};

// One thread.
class Search {
 public:
  explicit Search(std::vector<Knob> knobs) : knobs_(std::move(knobs)) {}

  // What to try next: at first the job as it is. Empty: everything has been tried.
  std::optional<Settings> next() const;
  // What it gave. A candidate is kept that is faster by 3 %, more than two trials of the same
  // settings differ by.
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

// `changes` over `base`.
Settings changed(Settings base, const Settings& changes);

}  // namespace kiln
