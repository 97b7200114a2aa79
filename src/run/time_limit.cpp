#include "run/time_limit.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace kiln {
namespace {

constexpr double kTrusted = 0.95;       // share of the time left that is planned for
constexpr int kFewEpochs = 3;           // with fewer, the last may be partial
constexpr double kPartWorthIt = 0.5;    // minimum share of an epoch worth starting
constexpr double kReportSeconds = 0.5;  // for the report page and the end of the record
constexpr double kBytesPerSecond = 200e6;
constexpr double kMaxHeldBack = 0.25;  // maximum share of the limit reserved for the end
constexpr int kWarmUpSteps = 2;

// An estimate: the weights in the saved model and, in the last checkpoint, the weights, the
// optimizer's state and the best epoch's weights.
long long bytes_at_the_end(const TrainingJob& job, const TrainState& state) {
  long long weights = 0;
  for (const NamedTensor& item : state.model->state())
    weights += static_cast<long long>(item.tensor.nbytes());
  return job.config.checkpoint.path.empty() ? weights : 4 * weights;
}

// The number of validation batches of this rank; the last one may be smaller.
double validation_batches(const TrainingJob& job) {
  const auto images = static_cast<double>(job.inputs.valid.samples.size());
  const int ranks = job.config.data.has_valid_shard ? 1 : job.world.size();
  return std::ceil(images / ranks / job.config.optimization.batch_size);
}

// Whether a run with --auto ends without fine-tuning. It still has a model, since the head is
// fitted by then.
bool leaves_fine_tuning_out(const TrainingJob& job, const TimePlan& plan) {
  return job.is_automatic && plan.is_over && plan.epochs == 0 && plan.steps == 0;
}

}  // namespace

double time_limit_of(const TrainingJob& job) {
  return job.uses_features ? 0 : job.config.optimization.time_limit_s;
}

std::string time_limit_word(const TrainingJob& job) {
  for (const auto& [name, text] : job.config.effective_options)
    if (name == "time-limit") return text;
  return {};
}

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
  return std::min(kMaxHeldBack * limit,
                  kReportSeconds + static_cast<double>(bytes) / kBytesPerSecond);
}

std::optional<TimePlan> time_plan_of(const TrainingJob& job, const TrainState& state) {
  if (time_limit_of(job) == 0) return {};
  return state.progress.time_plan.value_or(TimePlan{});
}

std::string time_limit_text(const TrainingJob& job, const TimePlan& plan) {
  const std::string limit = time_limit_word(job);
  if (job.uses_features)
    return limit + "; ends the fit of the last layer, but not the pass of all images before it";
  if (leaves_fine_tuning_out(job, plan))
    return limit + ": no time for fine-tuning; one epoch takes about " +
           duration_text(plan.epoch_seconds);
  if (plan.epochs == 0)
    return limit + formatted("; the number of epochs, at most %d, is set after the first",
                             job.asked_epochs());
  return limit +
         formatted(": %d %s, at about ", plan.epochs,
                   plan.epochs == 1 ? "epoch fits" : "epochs fit") +
         duration_text(plan.epoch_seconds) + (plan.epochs == 1 ? "" : " each");
}

void apply_time_plan(TrainingJob& job, const TimePlan& plan) {
  const std::string reason = "--time-limit " + time_limit_text(job, plan);
  if (plan.epochs > 0) {
    job.recipe.schedule.epochs = plan.epochs;
    choose(job.choices, {"epochs", std::to_string(plan.epochs), reason, /*has_line=*/true});
    const std::int64_t steps = plan.epochs * job.inputs.steps_per_epoch;
    if (job.config.optimization.steps > steps)
      choose(job.choices, {"steps", std::to_string(steps), reason, /*has_line=*/true});
  }
  if (plan.steps > 0)
    choose(job.choices, {"steps", std::to_string(plan.steps),
                         "--time-limit " + time_limit_word(job) + " expired after these steps",
                         /*has_line=*/true});
}

TimeLimit::TimeLimit(TrainingJob& job, TrainState& state, RunLogger& log)
    : job_(job), state_(state), log_(log), limit_s_(time_limit_of(job)) {
  if (!is_set()) return;
  if (!state.progress.time_plan) state.progress.time_plan.emplace();
  closing_s_ = closing_seconds(limit_s_, bytes_at_the_end(job, state));
  log.limit_time(limit_s_);
  if (!job.resume) return;
  const bool is_over = has_more_steps() && seconds_left() < end_seconds();
  apply_vote(job.world.broadcast(is_over));
}

double TimeLimit::seconds_left() const {
  return limit_s_ - closing_s_ - log_.seconds_used();
}

// Assumes that a validation image takes no longer than a training image, whatever the bottleneck.
double TimeLimit::end_seconds() const {
  if (plan().end_seconds > 0) return plan().end_seconds;
  if (step_seconds_ == 0) return expected_end_seconds_;
  return validation_batches(job_) * step_seconds_ / job_.config.optimization.accumulate;
}

bool TimeLimit::has_more_steps() const {
  const int epoch = state_.progress.epochs_done + 1;
  const std::int64_t most = job_.epoch_plan(epoch).max_steps;
  const std::int64_t steps = most > 0 ? most : job_.inputs.steps_per_epoch;
  return epoch < job_.last_epoch() || (epoch == job_.last_epoch() && state_.epoch.steps < steps);
}

void TimeLimit::note_step() {
  if (!is_set() || !job_.world.leads()) return;
  ++steps_;
  if (steps_ == kWarmUpSteps) since_second_ = {};
  if (steps_ > kWarmUpSteps) step_seconds_ = since_second_.seconds() / (steps_ - kWarmUpSteps);
}

bool TimeLimit::leaves_no_step() const {
  return is_set() && job_.world.leads() && seconds_left() < step_seconds_ + end_seconds();
}

void TimeLimit::end_unless_epoch_fits(double train_seconds, double valid_seconds) {
  if (!is_set()) return;
  expected_end_seconds_ = valid_seconds;
  TimePlan decided = plan();
  decided.epoch_seconds = train_seconds + valid_seconds;
  decided.is_over = seconds_left() < kPartWorthIt * train_seconds + valid_seconds;
  decided = job_.world.broadcast(decided);
  if (!decided.is_over) return;
  plan() = decided;
  log_.planned({.num_epochs = job_.first_epochs(), .reason = time_limit_text(job_, plan())});
}

void TimeLimit::apply_vote(bool is_out_of_time) {
  if (!is_set() || !is_out_of_time || is_over() || !has_more_steps()) return;
  plan().is_over = true;
  const int next = state_.progress.epochs_done + 1;
  if (state_.epoch.steps == 0 && job_.steps_before(next) > 0) {  // all epochs so far are complete
    plan().steps = job_.steps_before(next);
    apply_time_plan(job_, plan());
  }
  if (state_.progress.epochs_done == 0 && state_.epoch.steps == 1 && job_.world.leads())
    job_.log.warning("--time-limit " + time_limit_word(job_) +
                     " is too short: one step and one validation run regardless, so that there is "
                     "a model. Use a longer limit.");
}

void TimeLimit::end_epoch(const EpochRecord& record, double end_seconds) {
  if (!is_set()) return;
  steps_ = 0;
  plan().end_seconds = end_seconds;
  if (is_over()) {
    plan().steps = job_.steps_before(record.epoch) + record.num_steps;
    return apply_time_plan(job_, plan());
  }
  if (plan().epochs == 0) decide(record);
}

void TimeLimit::decide(const EpochRecord& record) {
  TimePlan decided = plan();
  const int first = job_.first_epochs(),
            last = job_.last_epoch() - first;  // as counted by the schedule
  decided.epochs = epochs_that_fit({.epochs_done = record.epoch - first,
                                    .max_epochs = last,
                                    .seconds_left = seconds_left(),
                                    .train_seconds = record.train_seconds,
                                    .end_seconds = decided.end_seconds});
  if (decided.epochs >= last) decided.epochs = job_.asked_epochs();
  decided.epoch_seconds = record.train_seconds + decided.end_seconds;
  plan() = job_.world.broadcast(decided);
  apply_time_plan(job_, plan());
  log_.planned({.num_epochs = first + plan().epochs, .reason = time_limit_text(job_, plan())});
  const SchedulePlan& schedule = job_.recipe.schedule;
  if (schedule.warmup_epochs >= schedule.epochs && job_.world.leads())
    job_.log.warning(
        "warm-up takes all epochs that fit into --time-limit: the learning rate never "
        "reaches its peak");
}

bool TimeLimit::has_ended_training() const {
  if (!is_set()) return false;
  return is_over() || (plan().epochs > 0 && plan().epochs < job_.asked_epochs() &&
                       state_.progress.epochs_done - job_.first_epochs() >= plan().epochs);
}

std::string TimeLimit::end_text() const {
  const std::string limit = "--time-limit " + time_limit_word(job_);
  if (leaves_fine_tuning_out(job_, plan()))
    return "No fine-tuning: " + limit + " leaves no time for it.";
  if (!is_over())
    return formatted("Training ended after %d %s, all that fit into ", plan().epochs,
                     plan().epochs == 1 ? "epoch" : "epochs") +
           limit + ".";
  return formatted("Training ended in epoch %d, after %lld steps in total: ",
                   state_.progress.epochs_done, static_cast<long long>(plan().steps)) +
         limit + " leaves no time for more.";
}

}  // namespace kiln
