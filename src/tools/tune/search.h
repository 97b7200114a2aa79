// The trials of `kiln tune`: a coordinate search over the settings of a job, which tries each kind
// of setting in turn, combined with the best of the previous kinds; and one short run of the job,
// in its own process, which is ended once its speed is known.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/run_record.h"

namespace kiln {

// Options, named without dashes, and their values, in addition to those of the job itself.
using Trial = std::vector<std::pair<std::string, std::string>>;

// "threads 2, loader-threads 1", "as given".
std::string settings_text(const Trial& settings);

// A kind of setting, such as the number of threads.
struct Knob {
  std::string name;
  std::vector<Trial> candidates;  // besides the job's own
  std::string not_tried = {};     // why there are no candidates
};

struct TrialResult {
  double images_per_second = 0;
  long long peak_memory_bytes = 0;  // of the GPU, where there is one
  std::string fault = {};           // why there is no rate; empty: none
  double loss = 0;                  // mean of the training loss over the steps that were measured
  RunStart start = {};              // of its record
  bool was_stopped = false;
};

// One thread.
class Search {
 public:
  explicit Search(std::vector<Knob> knobs) : knobs_(std::move(knobs)) {}

  // What to try next: first the job unchanged. Empty if everything has been tried.
  std::optional<Trial> next() const;
  // Adds the result of the last next(). A candidate is adopted if it is at least 3 % faster,
  // which is more than two trials of the same settings differ.
  void add(const TrialResult& result);

  int num_candidates() const;
  const Trial& best() const { return best_; }
  double best_rate() const { return best_rate_; }
  double first_rate() const { return first_rate_; }

 private:
  std::vector<Knob> knobs_;
  bool has_begun_ = false;
  std::size_t knob_ = 0, candidate_ = 0;
  Trial base_;  // the best of the knobs before this one
  Trial best_;
  double best_rate_ = 0, first_rate_ = 0;
};

// `base` with `changes` applied.
Trial changed(Trial base, const Trial& changes);

struct TrialPlan {
  std::vector<std::string> words;    // [0] is the program's path
  std::filesystem::path log_path;    // where the run writes its record; removed before and after it
  std::filesystem::path model_path;  // where the run would write its model; removed likewise
  // To measure, after `warm_up` steps; 0: 30, or as many as take two seconds, but at least five,
  // which also suffice for fewer than `least_rate` images/s.
  int steps = 0;
  int warm_up = 5;
  double least_rate = 0;
  double max_seconds = 300;
};

// Runs the trial until its steps have been measured, it has ended, or `must_stop()` returns true.
// Whatever happens to this process, nothing of the trial keeps running. A trial that cannot run
// returns a fault; throws only what SupervisedProcess throws.
TrialResult run_trial(const TrialPlan& plan, const std::function<bool()>& must_stop);

}  // namespace kiln
