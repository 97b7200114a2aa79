#include "tools/tune/search.h"

#include <poll.h>
#include <algorithm>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "record/run_file.h"
#include "tools/launch/supervised_process.h"

namespace kiln {
namespace {

constexpr double kWorthIt = 1.03;

constexpr int kPollMilliseconds = 100;
constexpr std::size_t kMaxText = 4000;  // bytes of a trial's output to keep

// Keeps the end of what a process writes to its standard error.
void read_output(const SupervisedProcess& process, std::string& errors) {
  std::string ignored;
  read_available(process.output(), ignored);
  read_available(process.errors(), errors);
  if (errors.size() > kMaxText) errors.erase(0, errors.size() - kMaxText);
}

std::string last_line(std::string_view text) {
  text = trimmed(text, "\n");
  return std::string(text.substr(text.rfind('\n') + 1));
}

void remove_outputs(const TrialPlan& plan) {
  remove_all_quietly(plan.log_path);
  remove_all_quietly(plan.model_path);
}

// The recorded steps after the warm-up, which is in the first epoch. What lies between two epochs
// does not count.
struct Measured {
  int steps = 0;
  double seconds = 0;
  Totals totals = {};
  double rate(const RunRecord& run) const { return run.start.global_batch * steps / seconds; }
};

Measured measured(const RunRecord& run, int warm_up) {
  Measured all;
  const StepRecord epoch_begin;
  const StepRecord* before = nullptr;
  for (const StepRecord& step : run.steps) {
    if (step.epoch == 1 && step.step <= warm_up) continue;
    if (before == nullptr || before->epoch != step.epoch)
      before = step.epoch == 1 ? &step : &epoch_begin;
    all.steps += step.step - before->step;
    all.seconds += step.elapsed_seconds - before->elapsed_seconds;
    all.totals.loss_sum += step.batch.loss_sum;
    all.totals.count += step.batch.count;
    before = &step;
  }
  return all;
}

bool is_enough(const RunRecord& run, const TrialPlan& plan) {
  constexpr int kFewest = 5, kMost = 30;
  constexpr double kSeconds = 2;
  const Measured all = measured(run, plan.warm_up);
  if (all.steps < kFewest) return false;
  if (plan.steps > 0) return all.steps >= plan.steps;
  return all.steps >= kMost || all.seconds >= kSeconds || all.rate(run) < plan.least_rate;
}

TrialResult result_of(const RunRecord& run, const TrialPlan& plan) {
  constexpr int kFewest = 3;
  TrialResult result;
  for (const EpochRecord& epoch : run.epochs)
    result.peak_memory_bytes =
        std::max(result.peak_memory_bytes,
                 epoch.peak_device_bytes > 0 ? epoch.peak_device_bytes : epoch.peak_memory_bytes);
  const Measured all = measured(run, plan.warm_up);
  if (all.steps >= kFewest) {
    result.images_per_second = all.rate(run);
    result.loss = all.totals.loss();
  } else if (!run.epochs.empty()) {
    result.images_per_second = run.epochs.back().train_images_per_second;
    result.loss = run.epochs.back().train.loss();
  } else {
    result.fault = formatted(
        "it is too slow to measure: its last step printed in %.0f s was step %d. "
        "Tune it with a smaller --accumulate, --batch-size or --image-size.",
        plan.max_seconds, run.steps.empty() ? 0 : run.steps.back().step);
  }
  return result;
}

}  // namespace

std::string settings_text(const Trial& settings) {
  std::string text;
  for (const auto& [option, value] : settings)
    text += (text.empty() ? "" : ", ") + option + " " + value;
  return text.empty() ? "as given" : text;
}

Trial changed(Trial base, const Trial& changes) {
  for (const auto& change : changes) {
    std::erase_if(base, [&](const auto& old) { return old.first == change.first; });
    base.push_back(change);
  }
  return base;
}

std::optional<Trial> Search::next() const {
  if (!has_begun_) return Trial{};
  if (knob_ == knobs_.size()) return std::nullopt;
  return changed(base_, knobs_[knob_].candidates[candidate_]);
}

int Search::num_candidates() const {
  std::size_t count = 0;
  for (const Knob& knob : knobs_) count += knob.candidates.size();
  return static_cast<int>(count);
}

void Search::add(const TrialResult& result) {
  if (!has_begun_) {
    has_begun_ = true;
    best_rate_ = first_rate_ = result.images_per_second;
  } else {
    if (result.fault.empty() && result.images_per_second > kWorthIt * best_rate_) {
      best_ = *next();
      best_rate_ = result.images_per_second;
    }
    ++candidate_;
  }
  while (knob_ < knobs_.size() && candidate_ == knobs_[knob_].candidates.size()) {
    ++knob_;
    candidate_ = 0;
    base_ = best_;
  }
}

TrialResult run_trial(const TrialPlan& plan, const std::function<bool()>& must_stop) {
  remove_outputs(plan);
  const Stopwatch watch;
  RunFollower record(plan.log_path / kRunFileName);
  // Trials are not reported to the user's tracking server.
  SupervisedProcess process({plan.words, {{"MLFLOW_TRACKING_URI", ""}}});
  std::string errors;
  std::optional<int> code;
  bool is_measured = false, was_stopped = false;
  while (!code && !is_measured && !was_stopped) {
    pollfd wait = {process.output(), POLLIN, 0};
    ::poll(&wait, 1, kPollMilliseconds);
    if ((wait.revents & POLLHUP) != 0) ::poll(nullptr, 0, kPollMilliseconds);
    code = process.ended();  // asked before reading, so that nothing it wrote last is missed
    read_output(process, errors);
    record.read_news();
    is_measured = is_enough(record.run(), plan) || watch.seconds() > plan.max_seconds;
    was_stopped = must_stop();
  }
  if (!code) process.kill();
  read_output(process, errors);
  TrialResult result;
  if (code && *code != 0) {
    const std::string said = record.run().end.failure;
    result.fault = !said.empty() ? said : last_line(errors);
    if (result.fault.empty()) result.fault = formatted("it exited with code %d", *code);
  } else {
    result = result_of(record.run(), plan);
    result.start = record.run().start;
  }
  result.was_stopped = was_stopped;
  remove_outputs(plan);
  return result;
}

}  // namespace kiln
