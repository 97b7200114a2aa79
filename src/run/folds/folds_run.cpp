#include "run/folds/folds_run.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "run/kept_model.h"
#include "run/out_of_fold.h"
#include "run/plan/class_counts.h"
#include "run/plan/fold_plan.h"

namespace kiln {
namespace {

void add(const Totals& more, Totals& sum) {
  sum.loss_sum += more.loss_sum;
  sum.top1 += more.top1;
  sum.top5 += more.top5;
  sum.count += more.count;
}

void add(const FoldEpoch& more, FoldEpoch& sum) {
  add(more.valid, sum.valid);
  sum.counts.resize(more.counts.size());
  for (std::size_t i = 0; i < more.counts.size(); ++i) sum.counts[i] += more.counts[i];
}

// The training images that a network has predicted, with its logits.
LabeledFeatures judged_images(const at::Tensor& logits, const SampleTable& samples) {
  const at::Tensor rows =
      logits.select(1, 0).isnan().logical_not().nonzero().flatten().contiguous();
  LabeledFeatures images;
  images.rows = logits.index_select(0, rows);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const auto sample = static_cast<std::uint32_t>(rows.const_data_ptr<std::int64_t>()[i]);
    images.samples.push_back(sample);
    images.labels.push_back(samples.label(sample));
  }
  return images;
}

}  // namespace

// The progress to continue from: the checkpoint's in a resumed run, otherwise a new one.
FoldsProgress& FoldsRun::begin() {
  const auto num_epochs = static_cast<std::size_t>(job_.last_epoch());
  std::optional<FoldsProgress>& progress = state_.progress.folds;
  if (!progress) {
    progress.emplace().epochs.resize(num_epochs);
    if (job_.world.leads()) progress->logits = empty_fold_logits(job_);
  }
  job_.world.agree([&] {
    if (progress->epochs.size() == num_epochs) return;
    throw Error(ErrorCode::kUserError,
                formatted("--epochs is %zu, but the networks of --folds in --checkpoint-path "
                          "trained for %zu: use that, or --resume never to start over.",
                          num_epochs, progress->epochs.size()));
  });
  return *progress;
}

int FoldsRun::train(Checkpoints& checkpoints) {
  if (!judges()) return 0;
  FoldsProgress& progress = begin();
  BadImageLedger bad_images("training", job_.inputs.train, /*is_shard=*/false, job_.config.data,
                            state_.bad_train);
  while (progress.done < num_folds()) {
    const int signal = train_fold(progress.done, bad_images);
    log_.part("");
    if (signal != 0) return signal;
    take_answers(progress.done);
    ++progress.done;
    checkpoints.begin();
  }
  return 0;
}

int FoldsRun::train_fold(int fold, BadImageLedger& bad_images) {
  const FoldContext context{job_, log_, bad_images};
  const std::string name = formatted("fold %d of %d", fold + 1, num_folds());
  const Stopwatch watch;
  std::vector<bool> held_out;
  for (const int one : job_.fold_of) held_out.push_back(one == fold);
  log_.part(formatted("fold %d/%d ", fold + 1, num_folds()));
  job_.world.enter(name + ", loading");
  epochs_.clear();
  training_ = std::make_unique<FoldTraining>(context, held_out, copied_model(*state_.model, job_));
  for (int epoch = 1; epoch <= job_.last_epoch(); ++epoch) {
    job_.world.enter(name + formatted(", training, epoch %d", epoch));
    if (const int signal = training_->train(epoch)) return signal;
    job_.world.enter(name + formatted(", evaluating, epoch %d", epoch));
    if (const int signal = training_->judge()) return signal;
    epochs_.push_back({training_->record().valid, training_->counts()});
    log_epoch(fold, training_->record());
  }
  const Totals& valid = epochs_.back().valid;
  job_.log.info(name +
                formatted(": top-1 %.2f %% on %s images that it had not seen; took ",
                          100 * valid.top1_accuracy(), grouped(valid.count).c_str()) +
                duration_text(watch.seconds()));
  return 0;
}

void FoldsRun::log_epoch(int fold, const EpochRecord& record) const {
  job_.log.detail(formatted(
      "fold %d of %d, epoch %d of %d: train loss %.4f, top-1 %.2f %%; "
      "valid loss %.4f, top-1 %.2f %%",
      fold + 1, num_folds(), record.epoch, job_.last_epoch(), record.train.loss(),
      100 * record.train.top1_accuracy(), record.valid.loss(), 100 * record.valid.top1_accuracy()));
}

// Adds the predictions for a finished fold to the progress.
void FoldsRun::take_answers(int fold) {
  FoldsProgress& progress = *state_.progress.folds;
  job_.world.enter(formatted("fold %d of %d, predictions", fold + 1, num_folds()));
  const LabeledFeatures answers = training_->take_answers();
  training_.reset();
  for (std::size_t i = 0; i < epochs_.size(); ++i) add(epochs_[i], progress.epochs[i]);
  if (!job_.world.leads() || answers.samples.empty()) return;
  const std::vector<std::int64_t> places(answers.samples.begin(), answers.samples.end());
  const at::NoGradGuard no_grad;
  progress.logits.index_copy_(0, at::tensor(places, at::kLong), answers.rows);
}

void FoldsRun::judge(EpochRecord& record) const {
  const FoldEpoch& judged =
      state_.progress.folds->epochs.at(static_cast<std::size_t>(record.epoch - 1));
  record.valid = judged.valid;
  record.macro = macro_scores(judged.counts);
}

ValidationDetails FoldsRun::details() {
  World& world = job_.world;
  const FoldsProgress& progress = *state_.progress.folds;
  LabeledFeatures images;
  std::vector<Prediction> predictions;
  HostLogits logits;
  if (world.leads()) {
    images = judged_images(progress.logits, job_.inputs.train.samples);
    predictions = predictions_of(images.rows, images);
    logits = {images.rows, images.labels};
  }
  ValidationDetails details = judge_best(job_, state_, predictions, logits);
  details.out_of_fold = {num_folds(), /*is_validation=*/true, progress.epochs.back().valid};
  if (world.leads()) details.doubtful = doubtful_images(job_.inputs, images.rows, images);
  return details;
}

}  // namespace kiln
