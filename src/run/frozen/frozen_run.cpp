#include "run/frozen/frozen_run.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/split/groups.h"
#include "predict/shown_answers.h"
#include "record/run_summary.h"
#include "run/bad_images.h"
#include "run/epoch.h"
#include "run/inputs/paced_news.h"
#include "run/judge.h"
#include "run/kept_model.h"
#include "run/prepare/class_counts.h"
#include "run/prepare/plan.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/prepare.h"
#include "run/saved_features.h"
#include "run/vote.h"
#include "train/evaluation.h"
#include "train/features/confident_learning.h"
#include "train/features/gathered_features.h"
#include "train/features/head_fit.h"
#include "train/loss.h"
#include "train/state.h"

namespace kiln {
namespace {

constexpr double kBackward = 2;  // cost relative to a forward pass

std::string accuracy_text(const Totals& totals) {
  return formatted("%.1f %% of %s validation images", 100 * totals.top1_accuracy(),
                   grouped(totals.count).c_str());
}

std::string reason(const Run& run) {
  const std::string by =
      run.config.optimization.best_by == BestBy::kTop1 ? "" : "; --best-by decides";
  const AutomaticRecord& found = run.state->progress.automatic->found;
  const std::string frozen = "the frozen network with the fitted last layer";
  if (found.keeps_tuned)
    return formatted("Epoch %d, which was fine-tuned, is kept: it gets ", found.tuned_epoch) +
           accuracy_text(found.tuned) + " right, and " + frozen + " " +
           formatted("%.1f %%", 100 * found.frozen.top1_accuracy()) + by + ".";
  const std::string kept =
      "Epoch 1, " + frozen + ", is kept: it gets " + accuracy_text(found.frozen) + " right";
  if (found.tuned_epoch > 0)
    return kept +
           formatted("; epoch %d, the best fine-tuned one, gets %.1f %%", found.tuned_epoch,
                     100 * found.tuned.top1_accuracy()) +
           by + ".";
  return kept + (run.stop->is_out_of_time()
                     ? "; there was no fine-tuning, since --time-limit " +
                           run.plan.stop.time_limit_word + " leaves no time for it."
                     : "; the run was stopped before the first fine-tuning epoch ended.");
}

constexpr int kSmallestBatch = 64;  // a pass without gradients needs little memory
constexpr int kFoldsForPenalty = 5;
constexpr int kBatchesToJudgeTime = 3;
constexpr double kLeastSeconds = 10;  // for the fit, whatever --time-limit leaves

// A set of images and the ledger for its faults.
struct ImageSet {
  Dataset& data;
  const Shard& shard;
  BadImageLedger& ledger;
  bool is_training;
};

// On rank 0.
HostLogits host_logits(const at::Tensor& logits, const LabeledFeatures& images) {
  return {logits.to(at::kFloat).contiguous(), images.labels};
}

// How far a fit is that takes long.
struct FitNews {
  PacedNews news;
  int done = 0, most = 1;   // layers
  double done_seconds = 0;  // when the last one was done

  std::string text() const {
    std::string text = formatted("fitting the last layer: fit %d of at most %d, ", done + 1, most) +
                       duration_text(news.seconds()) + " so far";
    if (done > 0)
      text += ", at most " + duration_text(done_seconds / done * (most - done)) + " more";
    return text;
  }
};

// `logits`: [N, C], on the host. Only `labels` and `samples` of `images` are used.
Totals totals_of(const at::Tensor& logits, const std::vector<std::int32_t>& labels,
                 const Task& task) {
  MetricSums sums{at::Device(at::kCPU)};
  const at::Tensor truth =
      at::tensor(std::vector<std::int64_t>(labels.begin(), labels.end()), at::kLong);
  sums.add(logits, truth, reported_loss(logits, truth, task), 1, task);
  return sums.totals();
}

std::vector<Prediction> predictions_of(const at::Tensor& logits, const LabeledFeatures& images,
                                       const Task& task) {
  std::vector<Prediction> predictions;
  for (std::size_t i = 0; i < images.labels.size(); ++i)
    predictions.push_back({images.samples[i], images.labels[i]});
  if (!predictions.empty()) set_answers(task.answers(logits), predictions);
  return predictions;
}

// Adds a gallery of the training images whose labels are probably wrong, most doubtful first. Not
// for too many classes.
void add_doubtful(const Job& job, const at::Tensor& logits, const LabeledFeatures& images,
                  ValidationDetails* details) {
  const Sources& sources = job.sources;
  const std::size_t num_classes = sources.train.classes.size();
  if (num_classes > kMaxConfusionClasses) return;
  const at::Tensor probabilities = logits.softmax(1).contiguous();
  const JudgedLabels judged{
      {probabilities.const_data_ptr<float>(), static_cast<std::size_t>(probabilities.numel())},
      images.labels,
      num_classes};
  if (!can_judge_labels(judged.num_agreed(), images.labels.size())) return;
  PictureList doubtful{
      "doubtful", "Labels that the models doubt",
      "Judged by the models of folds that have not seen the image (confident learning), most "
      "doubtful first. `kiln audit` lists all in a file to correct and train with.",
      ""};
  for (const std::uint32_t row : probably_wrong(judged, estimate_label_noise(judged))) {
    const std::uint32_t sample = images.samples[row];
    const std::int32_t best = judged.best(row);
    doubtful.images.push_back(judged_image(sources.train,
                                           {.sample = sample,
                                            .label = images.labels[row],
                                            .predicted = best,
                                            .confidence = judged.row(row)[best]},
                                           job.plan.pixels.valid, !job.config.output.no_pictures));
    if (doubtful.images.size() == kMostDrawn) break;
  }
  if (!doubtful.images.empty()) details->pictures.push_back(std::move(doubtful));
}

class FeatureRun {
 public:
  FeatureRun(Run& run, ImageModel& model)
      : run_(run),
        plan_(run.plan),
        state_(*run.state),
        model_(model),
        uploader_(torch_device(run.machine.device), plan_.pixels.valid.output, batch_size(),
                  plan_.pixels.normalization) {}

  void run() {
    Sources& sources = run_.sources;
    const Division& division = plan_.division;
    if (leads()) weights_ = copied_weights(model_);
    model_.fold_batch_norm();
    record_.epoch = 1;

    run_.world.enter("features of the training images");
    read({sources.train, division.train, *run_.bad_train, /*is_training=*/true}, train_);
    if (run_.stop->now()) return;
    record_.train_seconds = train_pass_seconds_ = watch_.seconds();
    forward_seconds_ = std::max(0.0, train_pass_seconds_ - wait_seconds_);
    if (validates()) {
      run_.world.enter("features of the validation images");
      read({sources.valid, division.valid, *run_.bad_valid, /*is_training=*/false}, valid_);
      if (run_.stop->now()) return;
      record_.valid_seconds = watch_.seconds() - record_.train_seconds;
    }
    pass_seconds_ = watch_.seconds();
    fit();
    if (!run_.stop->now()) finish();
  }

  // What an epoch of training will take, and its validation.
  double train_seconds() const { return train_pass_seconds_ + kBackward * forward_seconds_; }
  double valid_seconds() const { return record_.valid_seconds; }

 private:
  int batch_size() const { return std::max(kSmallestBatch, plan_.loading.batch_size); }
  bool leads() const { return run_.world.leads(); }
  bool validates() const { return !run_.sources.judged_out_of_fold; }

  void read(ImageSet set, LabeledFeatures& result) {
    World& world = run_.world;
    const auto count = static_cast<std::uint32_t>(set.data.samples.size());
    std::vector<std::uint32_t> mine = validation_indices(count, set.shard);
    const auto num_images = static_cast<std::int64_t>(mine.size());
    const std::unique_ptr<BatchLoader> loader =
        run_.loaders->once(set.data, std::move(mine), batch_size());
    uploader_.expect(num_images / batch_size());
    FeaturePass pass(model_, *loader, uploader_, plan_.recipe.precision, num_images);
    std::vector<BadImage> faults;
    while (stop_signal() == 0 && pass.step()) {
      world.at("batch " + std::to_string(pass.steps_done()));
      show_progress(pass, loader->num_batches(), set.is_training);
      warn_of_time(pass, set);
      for (BadImage& fault : loader->take_faults()) faults.push_back(std::move(fault));
      if (world.size() == 1)
        set.ledger.record(std::exchange(faults, {}), /*leads=*/true, run_.console);
    }
    const Vote all = vote(world, ballot(!faults.empty()));
    if (all.has_bad_images) set.ledger.record_on_all_ranks(faults, world, run_.console);
    run_.stop->add_votes(all);
    if (run_.stop->now()) return;
    if (set.is_training) {
      record_.num_steps = pass.steps_done();
      wait_seconds_ = loader->wait_seconds();
    }
    result = gathered_on_rank_0(world, pass.take());
    if (set.data.samples.has_weights())
      for (const std::uint32_t sample : result.samples)
        result.weights.push_back(set.data.samples.weight(sample));
  }

  void show_progress(const FeaturePass& pass, int num_batches, bool is_training) const {
    if (!is_training) return run_.log.validating(1, pass.steps_done(), num_batches);
    const double seconds = watch_.seconds();
    run_.log.progress({.epoch = 1,
                       .num_epochs = run_.stop->last_epoch(),
                       .step = pass.steps_done(),
                       .num_steps = num_batches,
                       .epoch_images_per_second = static_cast<double>(pass.images_done()) / seconds,
                       .elapsed_seconds = seconds});
  }

  // --time-limit cuts no pass short, since the head needs images of all classes. So warns early.
  void warn_of_time(const FeaturePass& pass, const ImageSet& set) {
    const double limit = run_.config.optimization.time_limit_s;
    const bool can_judge =
        pass.steps_done() >= kBatchesToJudgeTime || run_.clock.seconds_used() > limit;
    if (limit == 0 || was_warned_of_time_ || !leads() || !can_judge) return;
    const auto share = [&](const Dataset& data) {
      return static_cast<double>(data.samples.size()) / run_.world.size();
    };
    const double train = share(run_.sources.train),
                 valid = validates() ? share(run_.sources.valid) : 0;
    const double done = static_cast<double>(pass.images_done()) + (set.is_training ? 0 : train);
    const double to_come = watch_.seconds() * (train + valid - done) / std::max(1.0, done);
    if (run_.clock.seconds_used() + to_come <= limit) return;
    was_warned_of_time_ = true;
    run_.console.warning("--time-limit " + plan_.stop.time_limit_word +
                         " is too short: one pass of all images through the network takes about " +
                         duration_text(watch_.seconds() + to_come) +
                         ", and is completed anyway. Use a smaller network or --image-size.");
  }

  // The ranks wait for rank 0, which has all features.
  void fit() {
    // Only the counts are set, to the same values on all ranks.
    record_.train.count = run_.world.broadcast(train_.size());
    record_.valid.count = validates() ? run_.world.broadcast(valid_.size()) : record_.train.count;
    run_.world.agree([&] { check_epoch(record_); });
    doubt_accuracy(run_.world, run_.console, plan_, run_.sources, record_);
    run_.world.enter("fitting the head", /*patient=*/true);
    const Stopwatch watch;
    run_.world.agree([&] {
      if (leads()) head_ = fit_here();
    });
    fit_seconds_ = watch.seconds();
    record_.train_seconds += fit_seconds_;
    run_.stop->add_votes(vote(run_.world, ballot(false)));
  }

  HeadFit fit_here() const {
    // The group of each image: that of the split, or, where the sides were given, of the list.
    const Sources& sources = run_.sources;
    std::vector<std::uint32_t> all, groups;
    if (sources.split) all = sources.split->train_groups;
    if (all.empty() && !plan_.division.has_own_train) all = groups_of(sources.train, {}, "");
    if (!all.empty())
      for (const std::uint32_t sample : train_.samples) groups.push_back(all[sample]);
    const int asked = run_.config.optimization.folds;
    const Folds folds = divided_into_folds(
        train_.labels, groups, asked > 0 ? asked : kFoldsForPenalty, plan_.loading.seed);
    if (folds.count < asked)
      throw Error(ErrorCode::kInvalidDataset,
                  formatted("--folds is %d, but the training images form only %d independent "
                            "groups: use fewer folds, or more images or groups.",
                            asked, std::max(1, folds.count)));
    // The fit uses all images at once, so --sample balanced becomes class weights.
    std::vector<double> class_weights = plan_.recipe.loss.class_weights;
    if (plan_.loading.sample == Sampling::kBalanced) {
      std::vector<long long> counts(sources.num_classes());
      for (const std::int32_t label : train_.labels) ++counts[label];
      class_weights = weights_of_classes(ClassWeights::kBalanced, counts);
    }
    return fit_head(train_, static_cast<int>(sources.num_classes()), folds, class_weights,
                    fit_watch(), *task_for(sources.train));
  }

  // Rank 0's clock decides. There is always some time for the fit, since a run must end with a
  // model.
  FitWatch fit_watch() const {
    const double limit = run_.config.optimization.time_limit_s, begin = run_.clock.seconds_used();
    const double left = limit - closing_seconds(limit, bytes_of(weights_)) - begin;
    const auto news = std::make_shared<FitNews>(FitNews{PacedNews(run_.console)});
    FitWatch watch{.is_stopped = [news] {
      news->news.show([&] { return news->text(); });
      return stop_signal() != 0;
    }};
    watch.at_layer = [news](int done, int most) {
      news->done = done;
      news->most = most;
      news->done_seconds = news->news.seconds();
    };
    if (limit > 0)
      watch.time_share = [this, begin, budget = std::max(left, kLeastSeconds)] {
        return (run_.clock.seconds_used() - begin) / budget;
      };
    return watch;
  }

  std::shared_ptr<const Task> task_for(const Dataset& set) const {
    return task_of(set.labels.sets, run_.sources.num_classes());
  }

  void finish() {
    // Those by which the run is evaluated, none of a head that was fitted to their images. On rank
    // 0.
    at::Tensor logits;
    const LabeledFeatures& images = validates() ? valid_ : train_;
    if (leads()) {
      const auto valid_task = task_for(run_.sources.valid);
      record_.train =
          totals_of(head_logits(train_.rows, head_), train_.labels, *task_for(run_.sources.train));
      logits = validates() ? head_logits(valid_.rows, head_) : head_.out_of_fold_logits;
      record_.valid = totals_of(logits, images.labels, *valid_task);
      predictions_ = predictions_of(logits, images, *valid_task);
    } else {
      record_.train = record_.valid = {};
    }
    set_summed_numbers(run_.world.sum(summed_numbers(record_.valid)), record_.valid);
    set_summed_numbers(run_.world.sum(summed_numbers(record_)), record_);
    const Judge& judge = judge_of(run_.sources.valid);
    judge.measure(run_, run_.world.sum(judge.counts(predictions_, run_.sources.num_classes())),
                  leads() ? host_logits(logits, images) : HostLogits(), record_);
    run_.world.agree([&] { check_epoch(record_); });
    const double images_per_second = record_.train.count / record_.train_seconds;
    record_.train_images_per_second = record_.average_images_per_second = images_per_second;
    record_.data_wait_seconds = record_.times.data_wait = wait_seconds_;
    record_.times.forward = forward_seconds_;
    record_.times.optimizer = fit_seconds_;
    record_.bad_train_images = state_.bad_train.num_bad;
    record_.bad_valid_images = state_.bad_valid.num_bad;
    keep(logits, images);
  }

  void keep(const at::Tensor& judged, const LabeledFeatures& images) {
    BestEpoch& best = state_.progress.best;
    best = {.epoch = 1,
            .valid = record_.valid,
            .mean = kiln::judged(record_, run_.config.optimization.best_by).mean};
    const bool has_folds = run_.config.optimization.folds > 0;
    HostLogits logits;
    if (leads()) {
      const std::vector<NamedTensor> head = model_.head();
      for (NamedTensor& weight : weights_) {
        if (weight.name == head[0].name) weight.tensor = head_.weight;
        if (weight.name == head[1].name) weight.tensor = head_.bias;
      }
      best.weights = std::move(weights_);
      logits =
          has_folds ? host_logits(head_.out_of_fold_logits, train_) : host_logits(judged, images);
    }
    ValidationDetails details = judge_best(run_, predictions_, logits);
    if (has_folds && leads()) {
      details.out_of_fold = {run_.config.optimization.folds, /*is_validation=*/!validates(),
                             totals_of(head_.out_of_fold_logits, train_.labels, single_label())};
      add_doubtful(run_, head_.out_of_fold_logits, train_, &details);
    }
    if (leads()) log_result();
    run_.log.epoch(record_, &details);
    state_.progress.epochs_done = 1;
    if (plan_.uses_features) run_.features = {std::move(train_), std::move(valid_)};
  }

  void log_result() const {
    const long long num_images = train_.size() + valid_.size();
    run_.console.info(
        formatted("features:         %s images x %s in %.1f s; fitted in %.1f s with a penalty of "
                  "%.3g (%s)",
                  grouped(num_images).c_str(), grouped(train_.rows.size(1)).c_str(), pass_seconds_,
                  fit_seconds_, head_.penalty,
                  head_.is_chosen ? "the best for out-of-fold images"
                  : head_.is_cut  ? "no time to choose"
                                  : "too few images to choose"));
    if (!head_.is_cut) return;
    const std::string ended = "ended the fit of the last layer";
    run_.console.warning("--time-limit " + plan_.stop.time_limit_word + " " + ended + " after " +
                         duration_text(fit_seconds_) + ", before it was done: give more time.");
    run_.log.repeat_with(
        run_.log.settings().found(options::kTimeLimit, "", ended + "; a repeated run ends it"));
  }

  Run& run_;
  const Plan& plan_;
  TrainState& state_;
  ImageModel& model_;
  DeviceUploader uploader_;
  std::vector<NamedTensor> weights_;     // before BatchNorm is folded, on rank 0
  LabeledFeatures train_, valid_;        // all ranks' images, on rank 0
  HeadFit head_;                         // on rank 0
  std::vector<Prediction> predictions_;  // for the evaluation images, on rank 0
  Stopwatch watch_;
  double wait_seconds_ = 0, forward_seconds_ = 0, train_pass_seconds_ = 0;
  double pass_seconds_ = 0, fit_seconds_ = 0;
  EpochRecord record_;
  bool was_warned_of_time_ = false;
};

}  // namespace

void fit_head_first(Run& run) {
  const Plan& plan = run.plan;
  TrainState& state = *run.state;
  if (plan.uses_features) {
    run.checkpoints->skip_final();  // the model in the state is unusable afterwards
    return FeatureRun(run, *state.model).run();
  }
  if (!plan.is_automatic || state.progress.automatic) return;
  double train_seconds = 0, valid_seconds = 0;
  {
    const std::unique_ptr<ImageModel> copy = copied_model(*state.model, run);
    FeatureRun features(run, *copy);
    features.run();
    train_seconds = features.train_seconds();
    valid_seconds = features.valid_seconds();
  }
  if (run.stop->now()) return run.checkpoints->skip_final();
  restore_head(run);  // on rank 0
  {
    const at::NoGradGuard no_grad;
    broadcast_tensors(state.model->head(), *run.communicator);
  }
  AutomaticProgress& progress = state.progress.automatic.emplace();
  progress.found.frozen = state.progress.best.valid;
  progress.frozen_mean = state.progress.best.mean;
  run.stop->end_unless_epoch_fits(train_seconds, valid_seconds);
  run.checkpoints->begin();
}

bool holds_against_head(Run& run, const EpochRecord& record) {
  if (!run.plan.is_automatic) return true;
  const BestBy by = run.config.optimization.best_by;
  AutomaticProgress& progress = *run.state->progress.automatic;
  AutomaticRecord& found = progress.found;
  const JudgedEpoch tuned = judged(record, by);
  const bool holds = merit(tuned, by) >= merit({found.frozen, progress.frozen_mean}, by);
  if (found.keeps_tuned && !holds) return false;
  // An epoch that holds displaces any that does not. Within either group, the best one is recorded,
  // or with --save last the last one.
  const bool is_first = found.tuned_epoch == 0 || holds != found.keeps_tuned;
  if (!is_first && run.config.optimization.save != SaveChoice::kLast &&
      !is_better(tuned, {found.tuned, progress.tuned_mean}, by))
    return false;
  found.tuned_epoch = record.epoch;
  found.tuned = record.valid;
  found.keeps_tuned = holds;
  progress.tuned_mean = tuned.mean;
  return holds;
}

void record_automatic(Run& run) {
  if (!run.plan.is_automatic || !run.state->progress.automatic) return;
  AutomaticRecord& found = run.state->progress.automatic->found;
  found.reason = reason(run);
  run.log.decided(found);
  if (found.tuned_epoch == 0 && run.stop->is_out_of_time())
    run.log.repeat_with(settings_of_frozen_alone(run.log.settings(), run.config.settings,
                                                 "--time-limit left no time for fine-tuning"));
}

}  // namespace kiln
