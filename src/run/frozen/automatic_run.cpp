#include "run/frozen/automatic_run.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "base/text.h"
#include "run/frozen/frozen_run.h"
#include "run/prepare/automatic_plan.h"
#include "train/replicas.h"

namespace kiln {
namespace {

constexpr double kSignificance = 0.05;
constexpr double kBackward = 2;  // cost relative to a forward pass

// What rank 0 decides about an epoch, for all ranks.
struct Judgment {
  char is_better = 0;
  double p_value = 1;
};

// All ranks' predictions, on rank 0.
std::vector<Prediction> gathered(World& world, const std::vector<Prediction>& mine) {
  std::vector<Prediction> all;
  for (const std::vector<Prediction>& part : world.gather(mine))
    if (world.leads()) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string accuracy_text(const Totals& totals) {
  return formatted("%.1f %% of %s validation images", 100 * totals.top1_accuracy(),
                   grouped(totals.count).c_str());
}

}  // namespace

std::string packed_answers(const std::vector<Prediction>& predictions, std::size_t num_images) {
  std::string answers(num_images, '-');
  for (const Prediction& one : predictions)
    answers.at(one.sample) = one.predicted == one.label ? '1' : '0';
  return answers;
}

PairedAnswers paired(const std::string& first, const std::vector<Prediction>& second) {
  PairedAnswers pair;
  for (const Prediction& one : second) {
    const char answer = one.sample < first.size() ? first[one.sample] : '-';
    if (answer != '-') pair.add(answer == '1', one.predicted == one.label);
  }
  return pair;
}

int AutomaticRun::fit_head(TimeLimit& limit) {
  if (!needs_head()) return 0;
  FrozenResult frozen;
  {
    const std::unique_ptr<ImageModel> copy = copied_model(*state_.model, job_);
    frozen = train_on_features(job_, state_, *copy, log_);
  }
  if (frozen.stop_signal != 0) return frozen.stop_signal;
  take_head(state_.progress.best.weights);
  AutomaticProgress& progress = state_.progress.automatic.emplace();
  progress.answers =
      job_.world.broadcast(packed_answers(frozen.predictions, job_.inputs.valid.samples.size()));
  progress.found.frozen = frozen.judged;
  limit.end_unless_epoch_fits(frozen.train_seconds + kBackward * frozen.forward_seconds,
                              frozen.valid_seconds);
  return 0;
}

// `weights` are those of the whole network. Used on rank 0 only.
void AutomaticRun::take_head(const std::vector<NamedTensor>& weights) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> head = state_.model->head();
  for (const NamedTensor& layer : head)
    for (const NamedTensor& weight : weights)
      if (weight.name == layer.name) layer.tensor.copy_(weight.tensor);
  broadcast_tensors(head, *job_.communicator);
}

bool AutomaticRun::allows(const EpochRecord& record, const std::vector<Prediction>& predictions) {
  if (!job_.is_automatic) return true;
  AutomaticProgress& progress = *state_.progress.automatic;
  const std::vector<Prediction> all = gathered(job_.world, predictions);
  Judgment judgment;
  if (job_.world.leads()) {
    const PairedAnswers pair = paired(progress.answers, all);
    judgment.p_value = mcnemar_test(pair).p_value;
    judgment.is_better =
        static_cast<char>(judgment.p_value < kSignificance && pair.only_second > pair.only_first);
  }
  judgment = job_.world.broadcast(judgment);
  const bool is_better_here = judgment.is_better != 0;
  AutomaticRecord& found = progress.found;
  if (found.keeps_tuned && !is_better_here) return false;
  // An epoch that is better than the frozen network displaces any that is not. Within either group,
  // the best one is recorded, or with --save last the last one.
  const bool is_first = found.tuned_epoch == 0 || is_better_here != found.keeps_tuned;
  const bool replaces = is_first || job_.config.optimization.save == SaveChoice::kLast ||
                        is_better(judged(record), {found.tuned, progress.tuned_macro_recall},
                                  job_.config.optimization.best_by);
  if (!replaces) return false;
  found.tuned_epoch = record.epoch;
  found.tuned = record.valid;
  found.p_value = judgment.p_value;
  found.keeps_tuned = is_better_here;
  progress.tuned_macro_recall = judged(record).macro_recall;
  return is_better_here;
}

void AutomaticRun::finish(const TimeLimit& limit) {
  if (!job_.is_automatic || !state_.progress.automatic) return;
  AutomaticRecord& found = state_.progress.automatic->found;
  found.reason = reason(limit);
  log_.decided(found);
  if (found.tuned_epoch == 0 && limit.is_over())
    choose_frozen_alone(job_, "--time-limit left no time for fine-tuning");
}

std::string AutomaticRun::reason(const TimeLimit& limit) const {
  const AutomaticRecord& found = state_.progress.automatic->found;
  const std::string p_value =
      found.p_value < 0.001 ? "p < 0.001" : formatted("p = %.3f", found.p_value);
  const std::string frozen = "the frozen network with the fitted last layer";
  if (found.keeps_tuned)
    return formatted("Epoch %d, which was fine-tuned, is kept: it gets ", found.tuned_epoch) +
           accuracy_text(found.tuned) + " right, and " + frozen + " " +
           formatted("%.1f %%", 100 * found.frozen.top1_accuracy()) +
           ", which is lower by McNemar's test at 5 % (" + p_value + ").";
  const std::string kept =
      "Epoch 1, " + frozen + ", is kept: it gets " + accuracy_text(found.frozen) + " right";
  if (found.tuned_epoch > 0)
    return kept +
           formatted(
               "; epoch %d, the best fine-tuned one, gets %.1f %%, which is not better by "
               "McNemar's test at 5 %% (",
               found.tuned_epoch, 100 * found.tuned.top1_accuracy()) +
           p_value + ").";
  return kept + (limit.is_over()
                     ? "; there was no fine-tuning, since --time-limit " + time_limit_word(job_) +
                           " leaves no time for it."
                     : "; the run was stopped before the first fine-tuning epoch ended.");
}

}  // namespace kiln
