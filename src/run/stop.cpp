#include "run/stop.h"

#include <cmath>

#include "base/text.h"
#include "run/prepare/prepare.h"

namespace kiln {
namespace {

constexpr double kTrusted = 0.95;       // share of the time left that is planned for
constexpr int kFewEpochs = 3;           // with fewer, the last may be partial
constexpr double kPartWorthIt = 0.5;    // minimum share of an epoch worth starting
constexpr double kReportSeconds = 0.5;  // for the report page and the end of the record
constexpr double kBytesPerSecond = 200e6;
constexpr double kMaxHeldBack = 0.25;  // maximum share of the limit reserved for the end
constexpr int kWarmUpSteps = 2;

}  // namespace

int epochs_that_fit(const TimeBudget& budget) {
  const double whole = budget.train_seconds + budget.end_seconds;
  const double left = std::max(0.0, budget.seconds_left * kTrusted);
  const double most = std::max(0, budget.max_epochs - budget.epochs_done);
  const double more = whole > 0 ? std::min(most, std::floor(left / whole)) : most;
  int epochs = budget.epochs_done + static_cast<int>(more);
  const double rest = left - more * whole - budget.end_seconds;
  if (epochs < kFewEpochs && rest >= kPartWorthIt * budget.train_seconds) ++epochs;
  return std::min(epochs, std::max(budget.max_epochs, budget.epochs_done));
}

double closing_seconds(double limit, long long bytes) {
  return std::min(kMaxHeldBack * limit, kReportSeconds + bytes / kBytesPerSecond);
}

Stop::Stop(const StopRule& rule, World& world, const RunClock& clock, TrainState& state,
           Log& console, RunLogger& log)
    : rule_(rule), world_(world), clock_(clock), state_(state), console_(console), log_(log) {
  // An estimate: the saved model has the weights; the last checkpoint has them, the optimizer's
  // state and the weights of the best epoch.
  const int num_copies = rule.writes_checkpoints ? 4 : 1;
  closing_s_ = rule.features_s +
               closing_seconds(rule.time_limit_s, num_copies * bytes_of(state.model->state()));
  std::optional<TimePlan>& time = state.progress.time_plan;
  if (time) record_found();  // of an earlier process
  if (has_time_limit() && !time) time.emplace();
}

void Stop::begin(bool is_resumed) {
  if (!has_time_limit()) return;
  log_.limit_time(rule_.time_limit_s);
  if (!is_resumed) return;
  const bool is_over = has_more_steps() && seconds_left() < end_seconds();
  if (world_.broadcast(is_over)) end_for_time();
}

int Stop::scheduled_epochs() const {
  const std::optional<TimePlan>& time = state_.progress.time_plan;
  return time && time->epochs > 0 ? time->epochs : rule_.length.epochs;
}

std::optional<int> Stop::next_epoch() const {
  const Progress& progress = state_.progress;
  if (now() || progress.epochs_done >= last_epoch() || progress.early_stopping.exhausted())
    return {};
  if (is_out_of_time() && progress.best.epoch > 0 && state_.epoch.steps == 0) return {};
  return progress.epochs_done + 1;
}

void Stop::add_votes(const Vote& all) {
  if (all.is_out_of_time) end_for_time();
  if (all.stop_signal != 0) signal_ = all.stop_signal;
}

double Stop::images_in_time(double num_valid) const {
  const double left = std::min(rule_.features_s, seconds_left() + rule_.features_s);
  return has_time_limit() ? std::max(0.0, left) * num_valid / std::max(1e-3, end_seconds())
                          : std::numeric_limits<double>::infinity();
}

// Assumes that a validation image takes no longer than a training image, whatever the bottleneck.
double Stop::end_seconds() const {
  if (plan().end_seconds > 0) return plan().end_seconds;
  if (step_seconds_ == 0) return expected_end_seconds_;
  return rule_.validation_batches * step_seconds_ / rule_.accumulate;
}

bool Stop::has_more_steps() const {
  const int epoch = state_.progress.epochs_done + 1;
  return epoch < last_epoch() ||
         (epoch == last_epoch() && state_.epoch.steps < rule_.length.steps_of(epoch));
}

void Stop::count_step() {
  if (!has_time_limit() || !world_.leads()) return;
  ++steps_;
  if (steps_ == kWarmUpSteps) since_second_ = {};
  if (steps_ > kWarmUpSteps) step_seconds_ = since_second_.seconds() / (steps_ - kWarmUpSteps);
}

bool Stop::leaves_no_step() const {
  return has_time_limit() && world_.leads() && seconds_left() < step_seconds_ + end_seconds();
}

void Stop::end_unless_epoch_fits(double train_seconds, double valid_seconds) {
  if (!has_time_limit()) return;
  expected_end_seconds_ = valid_seconds;
  TimePlan decided = plan();
  decided.epoch_seconds = train_seconds + valid_seconds;
  decided.is_over = seconds_left() < kPartWorthIt * train_seconds + valid_seconds;
  decided = world_.broadcast(decided);
  if (!decided.is_over) return;
  plan() = decided;
  log_.planned({.num_epochs = rule_.length.first_epochs, .reason = time_text()});
}

void Stop::end_for_time() {
  if (!has_time_limit() || is_out_of_time() || !has_more_steps()) return;
  plan().is_over = true;
  const std::int64_t before = rule_.length.steps_before(state_.progress.epochs_done + 1);
  if (state_.epoch.steps == 0 && before > 0) {  // all epochs so far are complete
    plan().steps = before;
    record_found();
  }
  if (state_.progress.epochs_done == 0 && state_.epoch.steps == 1 && world_.leads())
    console_.warning("--time-limit " + rule_.time_limit_word +
                     " is too short: one step and one validation run regardless, so that there is "
                     "a model. Use a longer limit.");
}

void Stop::end_epoch(const EpochRecord& record) {
  Progress& progress = state_.progress;
  progress.epochs_done = record.epoch;
  progress.early_stopping.add(record.valid.loss());
  state_.begin_epoch();
  if (!has_time_limit()) return;
  steps_ = 0;
  plan().end_seconds = since_last_step_.seconds();
  if (is_out_of_time()) {
    plan().steps = rule_.length.steps_before(record.epoch) + record.num_steps;
    return record_found();
  }
  if (plan().epochs == 0) decide(record);
}

void Stop::decide(const EpochRecord& record) {
  TimePlan decided = plan();
  const int first = rule_.length.first_epochs,
            last = last_epoch() - first;  // as counted by the schedule
  decided.epochs = epochs_that_fit({.epochs_done = record.epoch - first,
                                    .max_epochs = last,
                                    .seconds_left = seconds_left(),
                                    .train_seconds = record.train_seconds,
                                    .end_seconds = decided.end_seconds});
  if (decided.epochs >= last) decided.epochs = rule_.length.epochs;
  decided.epoch_seconds = record.train_seconds + decided.end_seconds;
  plan() = world_.broadcast(decided);
  record_found();
  log_.planned({.num_epochs = last_epoch(), .reason = time_text()});
  if (rule_.warmup_epochs >= scheduled_epochs() && world_.leads())
    console_.warning(
        "warm-up takes all epochs that fit into --time-limit: the learning rate never "
        "reaches its peak");
}

// What was decided, for repeat.yaml.
void Stop::record_found() const {
  const auto find = [&](std::string_view option, std::int64_t number, const std::string& why) {
    log_.repeat_with(log_.settings().found(option, std::to_string(number), why));
  };
  const std::string reason = "--time-limit " + time_text();
  if (plan().epochs > 0) {
    find(options::kEpochs, plan().epochs, reason);
    const std::int64_t steps = plan().epochs * rule_.length.steps_per_epoch;
    if (rule_.length.steps > steps) find(options::kSteps, steps, reason);
  }
  if (plan().steps > 0)
    find(options::kSteps, plan().steps,
         "--time-limit " + rule_.time_limit_word + " expired after these steps");
}

// Whether a run with --auto ends without fine-tuning. It still has a model, since the head is
// fitted by then.
bool Stop::leaves_fine_tuning_out() const {
  return rule_.is_automatic && plan().is_over && plan().epochs == 0 && plan().steps == 0;
}

std::string Stop::time_text() const {
  const std::string& limit = rule_.time_limit_word;
  const int first = rule_.length.first_epochs, last = last_epoch();
  if (leaves_fine_tuning_out())
    return limit + ": no time for fine-tuning; one epoch takes about " +
           duration_text(plan().epoch_seconds);
  if (plan().epochs == 0)
    return limit +
           formatted("; the number of epochs, at most %d, is set after epoch %d", last, first + 1);
  return limit + ": " + plural(last, "epoch fits", "epochs fit") + ", at about " +
         duration_text(plan().epoch_seconds) +
         (first > 0   ? " each after the first"
          : last == 1 ? ""
                      : " each");
}

bool Stop::is_out_of_patience() const {
  return state_.progress.early_stopping.exhausted() && state_.progress.epochs_done < last_epoch();
}

bool Stop::has_ended_for_time() const {
  if (!has_time_limit()) return false;
  return is_out_of_time() ||
         (plan().epochs > 0 && plan().epochs < rule_.length.epochs &&
          state_.progress.epochs_done - rule_.length.first_epochs >= plan().epochs);
}

std::string Stop::early_reason() const {
  if (now()) return "signal";
  return is_out_of_patience() ? "patience" : has_ended_for_time() ? "time-limit" : "";
}

std::string Stop::finished_reason() const {
  if (now()) return "";
  const std::string early = early_reason();
  return early.empty() ? "epochs" : early;
}

std::string Stop::early_text(const std::string& kept, bool can_resume) const {
  if (now())
    return "Stopped by signal " + std::to_string(signal_) + "." +
           (can_resume ? " Run the same command to resume." : "");
  if (!is_out_of_patience()) return time_end_text();
  return "Stopped early. The validation loss was not below the previous epoch's for " +
         plural(rule_.patience, "epoch", "consecutive epochs") +
         formatted("; epoch %d, ", state_.progress.best.epoch) + kept + ", is kept.";
}

std::string Stop::time_end_text() const {
  const std::string limit = "--time-limit " + rule_.time_limit_word;
  if (leaves_fine_tuning_out()) return "No fine-tuning: " + limit + " leaves no time for it.";
  if (!is_out_of_time())
    return "Training ended after " + plural(last_epoch(), "epoch", "epochs") +
           ", all that fit into " + limit + ".";
  return formatted("Training ended in epoch %d, after ", state_.progress.epochs_done) +
         plural(plan().steps, "step", "steps") + " in total: " + limit +
         " leaves no time for more.";
}

}  // namespace kiln
