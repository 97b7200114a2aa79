#include "run/frozen/automatic_run.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "base/text.h"
#include "run/checkpoint/image_hashes.h"
#include "run/frozen/frozen_run.h"
#include "run/prepare/prepare.h"
#include "train/state.h"

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

// `weights` are those of the whole network. Used on rank 0 only.
void take_head(const std::vector<NamedTensor>& weights, Run& run) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> head = run.state->model->head();
  for (const NamedTensor& layer : head)
    for (const NamedTensor& weight : weights)
      if (weight.name == layer.name) layer.tensor.copy_(weight.tensor);
  broadcast_tensors(head, *run.communicator);
}

// The first epoch of --auto.
void fit_automatic_head(Run& run) {
  TrainState& state = *run.state;
  FrozenResult frozen;
  {
    const std::unique_ptr<ImageModel> copy = copied_model(*state.model, run);
    frozen = train_on_features(run, *copy);
  }
  if (run.stop->now()) return;
  take_head(state.progress.best.weights, run);
  AutomaticProgress& progress = state.progress.automatic.emplace();
  progress.answers =
      run.world.broadcast(packed_answers(frozen.predictions, run.sources.valid.samples.size()));
  progress.found.frozen = frozen.judged;
  run.stop->end_unless_epoch_fits(frozen.train_seconds + kBackward * frozen.forward_seconds,
                                  frozen.valid_seconds);
  share_hashes(run.world, run.plan, run.sources);
  run.checkpoints->begin();
}

std::string reason(const Run& run) {
  const AutomaticRecord& found = run.state->progress.automatic->found;
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
  return kept + (run.stop->is_out_of_time()
                     ? "; there was no fine-tuning, since --time-limit " +
                           run.plan.stop.time_limit_word + " leaves no time for it."
                     : "; the run was stopped before the first fine-tuning epoch ended.");
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

void fit_head_first(Run& run) {
  const Plan& plan = run.plan;
  if (plan.uses_features) {
    run.checkpoints->skip_final();  // the model in the state is unusable afterwards
    train_on_features(run, *run.state->model);
  } else if (plan.is_automatic && !run.state->progress.automatic) {
    fit_automatic_head(run);
    if (run.stop->now()) run.checkpoints->skip_final();
  }
}

bool is_better_than_head(Run& run, const EpochRecord& record,
                         const std::vector<Prediction>& predictions) {
  if (!run.plan.is_automatic) return true;
  AutomaticProgress& progress = *run.state->progress.automatic;
  const std::vector<Prediction> all = gathered(run.world, predictions);
  Judgment judgment;
  if (run.world.leads()) {
    const PairedAnswers pair = paired(progress.answers, all);
    judgment.p_value = mcnemar_test(pair).p_value;
    judgment.is_better =
        static_cast<char>(judgment.p_value < kSignificance && pair.only_second > pair.only_first);
  }
  judgment = run.world.broadcast(judgment);
  const bool is_better_here = judgment.is_better != 0;
  AutomaticRecord& found = progress.found;
  if (found.keeps_tuned && !is_better_here) return false;
  // An epoch that is better than the frozen network displaces any that is not. Within either group,
  // the best one is recorded, or with --save last the last one.
  const bool is_first = found.tuned_epoch == 0 || is_better_here != found.keeps_tuned;
  const bool replaces =
      is_first || run.plan.keep.save == SaveChoice::kLast ||
      is_better(judged(record), {found.tuned, progress.tuned_macro_recall}, run.plan.keep.best_by);
  if (!replaces) return false;
  found.tuned_epoch = record.epoch;
  found.tuned = record.valid;
  found.p_value = judgment.p_value;
  found.keeps_tuned = is_better_here;
  progress.tuned_macro_recall = judged(record).macro_recall;
  return is_better_here;
}

void record_automatic(Run& run) {
  if (!run.plan.is_automatic || !run.state->progress.automatic) return;
  AutomaticRecord& found = run.state->progress.automatic->found;
  found.reason = reason(run);
  run.log.decided(found);
  if (found.tuned_epoch == 0 && run.stop->is_out_of_time())
    run.log.set_choices(
        choices_of_frozen_alone(run.log.choices(), "--time-limit left no time for fine-tuning"));
}

}  // namespace kiln
