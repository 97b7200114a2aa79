#include "run/folds/fold_training.h"

#include <string>
#include <utility>

#include "base/system.h"
#include "run/epoch_check.h"
#include "run/epoch_end.h"
#include "run/epoch_validation.h"
#include "run/frozen/gathered_features.h"
#include "run/plan/class_counts.h"
#include "run/vote.h"
#include "train/epoch.h"
#include "train/evaluation.h"

namespace kiln {
namespace {

std::vector<std::uint32_t> places_of(const std::vector<bool>& chosen) {
  std::vector<std::uint32_t> places;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) places.push_back(static_cast<std::uint32_t>(i));
  return places;
}

std::vector<bool> opposite(std::vector<bool> chosen) {
  chosen.flip();
  return chosen;
}

// The inputs of a run that trains on the other images and validates on those held out.
TrainingInputs inputs_of(const TrainingInputs& all, const std::vector<bool>& held_out) {
  TrainingInputs inputs;
  inputs.train = part_of(all.train, opposite(held_out));
  inputs.valid = part_of(all.train, held_out);
  inputs.train_shard = all.train_shard;
  inputs.valid_shard = all.valid_shard;
  inputs.steps_per_epoch =
      static_cast<std::int64_t>(inputs.train.samples.size()) / inputs.train_shard.images_per_step();
  inputs.pixels = all.pixels;
  inputs.valid_pixels = all.valid_pixels;
  inputs.sizes = all.sizes;
  inputs.num_epochs = all.num_epochs;
  inputs.normalization = all.normalization;
  return inputs;
}

Recipe fold_recipe(const TrainingJob& job, const TrainingInputs& inputs) {
  Recipe recipe = job.recipe;
  recipe.schedule.steps_per_epoch = static_cast<int>(inputs.steps_per_epoch);
  recipe.loss.class_weights =
      weights_of_classes(job.config.optimization.class_weights,
                         counts_by_class(inputs.train, inputs.train.classes.size()));
  return recipe;
}

// Maps the faults from indices within one part to indices within all training images.
std::vector<BadImage> among_all(std::vector<BadImage> faults,
                                const std::vector<std::uint32_t>& places) {
  for (BadImage& fault : faults) fault.sample = places[fault.sample];
  return faults;
}

}  // namespace

FoldTraining::FoldTraining(const FoldContext& context, const std::vector<bool>& held_out,
                           std::unique_ptr<ImageModel> model)
    : context_(context),
      job_(context.job),
      train_(places_of(opposite(held_out))),
      held_out_(places_of(held_out)) {
  CacheChoice cache;
  job_.world.agree([&] {
    inputs_ = inputs_of(job_.inputs, held_out);
    cache = choose_cache(job_.config.data, inputs_, job_.world.local_size());
  });
  recipe_ = fold_recipe(job_, inputs_);
  state_ =
      std::make_unique<TrainState>(std::move(model), recipe_, job_.buckets(), *job_.communicator);
  state_->random_seed = static_cast<std::uint64_t>(job_.config.optimization.random_seed);
  loaders_ = loaders_of(job_, inputs_, cache);
}

EpochPlan FoldTraining::plan(int epoch) const {
  EpochPlan plan = job_.epoch_plan(epoch);
  plan.schedule = recipe_.schedule;
  plan.step.loss = recipe_.loss;
  return plan;
}

void FoldTraining::record_faults(const std::vector<BadImage>& mine) {
  context_.bad_images.record_on_all_ranks(mine, job_.world, job_.log);
}

int FoldTraining::train(int epoch) {
  World& world = job_.world;
  {
    const std::unique_ptr<Batches> loader = loaders_->training(epoch, 0);
    loaders_->begin_validation(epoch);
    TrainEpoch training(*state_, *loader, job_.training_uploader(epoch), plan(epoch));
    while (training.step()) {
      world.at("step " + std::to_string(training.steps_done()));
      const bool printed = (training.steps_done() - 1) % job_.config.output.print_freq == 0;
      context_.log.progress(printed ? training.printed_step().record : training.timing());
      const std::vector<BadImage> faults = among_all(loader->take_faults(), train_);
      const Vote all = vote(world, ballot(!faults.empty()));
      if (all.has_bad_images) record_faults(faults);
      if (all.stop_signal != 0) return all.stop_signal;
    }
    record_ = end_training(world, training);
  }
  if (epoch < job_.last_epoch()) loaders_->begin_training(epoch + 1);
  join_training(job_, *state_, record_);
  warn_of_skipped_steps(record_, world, job_.log);
  return 0;
}

int FoldTraining::judge() {
  World& world = job_.world;
  const std::size_t num_classes = inputs_.train.classes.size();
  const AveragesInPlace averages(state_->averages ? &*state_->averages : nullptr);
  BatchLoader loader = loaders_->validation(record_.epoch);
  Evaluator evaluator(*state_->model, loader, job_.validation_uploader(), recipe_.precision, {});
  std::vector<BadImage> faults;
  while (stop_signal() == 0 && evaluator.step()) {
    context_.log.validating(record_.epoch, evaluator.steps_done(), loader.num_batches());
    for (BadImage& fault : among_all(loader.take_faults(), held_out_))
      faults.push_back(std::move(fault));
  }
  ValidationVote mine{.has_bad_images = !faults.empty(), .totals = evaluator.totals()};
  const std::vector<Prediction> predictions = evaluator.take_predictions();
  mine.class_counts = class_counts(predictions, num_classes);
  const ValidationVote all = vote_on_validation(world, mine);
  if (all.has_bad_images) record_faults(faults);
  if (all.stop_signal != 0) return all.stop_signal;
  record_.valid = all.totals;
  counts_ = all.class_counts;
  world.agree([&] { check_epoch(record_); });

  answers_ = {};
  answers_.rows = evaluator.take_logits().logits;
  for (const Prediction& prediction : predictions) {
    answers_.labels.push_back(prediction.label);
    answers_.samples.push_back(held_out_[prediction.sample]);
  }
  loaders_->adapt_threads();
  state_->begin_epoch();
  return 0;
}

LabeledFeatures FoldTraining::take_answers() {
  return gathered(job_.world, std::move(answers_));
}

}  // namespace kiln
