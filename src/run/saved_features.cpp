#include "run/saved_features.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"
#include "base/text.h"
#include "data/loader/sampler.h"
#include "model/weights/starting_weights.h"
#include "parallel/gradients/communicator.h"
#include "predict/features/known_features.h"
#include "predict/features/training_features.h"
#include "predict/shown_answers.h"
#include "train/evaluation.h"
#include "train/features/gathered_features.h"
#include "train/features/likeness.h"
#include "train/features/neighbors.h"

namespace kiln {
namespace {

struct ChosenImages {
  std::int64_t of_class = 0, valid = 0;
};

// The same on all ranks. A collective.
ChosenImages chosen_images(Run& run) {
  const auto num_classes = static_cast<std::int64_t>(run.sources.num_classes());
  const auto num_valid = static_cast<std::int64_t>(run.num_valid_images());
  const auto valid = static_cast<double>(num_valid);
  const double of_epoch = static_cast<double>(run.plan.division.images_per_epoch()) + valid;
  const auto most = static_cast<std::int64_t>(  // that the pass may have
      std::min(kFeatureShare * run.state->progress.epochs_done * of_epoch,
               run.stop->images_in_time(valid)));
  ChosenImages chosen{.valid = std::min({num_valid, kMostHeldOut,
                                         std::max<std::int64_t>(kFewestHeldOut, most / 2)})};
  chosen.of_class =
      std::min({kMostOfClass, kMostTrained / num_classes, (most - chosen.valid) / num_classes});
  return run.world.broadcast(chosen);
}

std::vector<std::uint32_t> part_of_rank(const std::vector<std::uint32_t>& images,
                                        const Shard& shard) {
  std::vector<std::uint32_t> mine;
  if (shard.rank >= shard.num_ranks) return mine;  // it trains nothing
  for (const std::uint32_t i : validation_indices(images.size(), shard)) mine.push_back(images[i]);
  return mine;
}

// This rank's part of `count` images of each class.
std::vector<std::uint32_t> training_images(const Run& run, std::int64_t count) {
  const Division& division = run.plan.division;
  const int num_parts =
      division.has_own_train ? std::max(1, run.world.size() / division.train.num_ranks) : 1;
  return part_of_rank(
      some_of_each_class(run.sources.train.samples, run.sources.num_classes(),
                         (count + num_parts - 1) / num_parts, run.plan.loading.seed),
      division.train);
}

// This rank's part of `count` validation images.
std::vector<std::uint32_t> validation_images(const Run& run, std::int64_t count) {
  const auto all = static_cast<std::int64_t>(run.num_valid_images());
  const auto size = static_cast<std::int64_t>(run.sources.valid.samples.size());
  return part_of_rank(evenly(size, (size * count + all - 1) / all), run.plan.division.valid);
}

LabeledFeatures pass_over(Run& run, Dataset& set, std::vector<std::uint32_t> images) {
  const auto count = static_cast<std::int64_t>(images.size());
  const int batch_size = run.plan.loading.batch_size;
  const std::unique_ptr<BatchLoader> loader = run.loaders->once(set, std::move(images), batch_size);
  DeviceUploader uploader(torch_device(run.machine.device), run.plan.pixels.valid.output,
                          batch_size, run.plan.pixels.normalization);
  uploader.expect(count / batch_size);
  FeaturePass pass(*run.state->model, *loader, uploader, run.plan.recipe.precision, count);
  while (stop_signal() == 0 && pass.step())
    run.world.at("batch " + std::to_string(pass.steps_done()));
  return pass.take();
}

// The best epoch's weights on all ranks.
void restore_best(Run& run) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> own = run.state->model->state();
  if (run.world.leads()) {
    const std::vector<NamedTensor>& best = run.state->progress.best.weights;
    for (std::size_t i = 0; i < own.size(); ++i) own[i].tensor.copy_(best[i].tensor);
  }
  broadcast_tensors(own, *run.communicator);
}

// What pass_over() gives of each rank's images, on rank 0; `fault` says on all ranks what went
// wrong. A collective.
FeatureSets gathered_pass(Run& run, std::vector<std::uint32_t> train,
                          std::vector<std::uint32_t> valid, std::string& fault) {
  FeatureSets mine;
  try {
    mine.train = pass_over(run, run.sources.train, std::move(train));
    mine.valid = pass_over(run, run.sources.valid, std::move(valid));
    if (stop_signal() != 0) fault = "the run was stopped";
  } catch (const std::exception& failure) {
    fault = failure.what();
  }
  for (std::string& text : run.world.gather(fault))
    if (fault.empty()) fault = std::move(text);
  if (!fault.empty()) return {};
  return {gathered_on_rank_0(run.world, std::move(mine.train)),
          gathered_on_rank_0(run.world, std::move(mine.valid))};
}

// Of as many images as the run can afford; the same otherwise.
FeatureSets affordable_pass(Run& run, std::string& fault) {
  const ChosenImages chosen = chosen_images(run);
  if (chosen.of_class < kFewestOfClass) {
    fault = "the pass would take more than a twentieth of the run";
    return {};
  }
  restore_best(run);
  return gathered_pass(run, training_images(run, chosen.of_class),
                       validation_images(run, chosen.valid), fault);
}

// Of these validation images, those that are least like the training images. On rank 0, which has
// them.
PictureList least_alike(Run& run, const Likeness& likeness, const LabeledFeatures& valid,
                        const at::Tensor& log_sums) {
  const at::NoGradGuard no_grad;
  const BestEpoch& best = run.state->progress.best;
  ImageModel& model = *run.state->model;
  const std::int64_t count = std::min<std::int64_t>(kLeastAlike, valid.size());
  const at::Tensor places = std::get<1>(likeness.unlikeness(valid.rows, log_sums).topk(count));
  const at::Tensor rows = valid.rows.index_select(0, places);
  const at::Tensor logits = model.logits_of(rows.to(torch_device(run.machine.device)));
  std::vector<Prediction> answers;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<std::size_t>(places[i].item<std::int64_t>());
    answers.push_back({valid.samples[place], valid.labels[place]});
  }
  set_answers(run.valid_task->answers(logits.cpu() / best.calibration.temperature), answers);
  PictureList list = unlike_gallery(likeness.separation);
  for (const Prediction& answer : answers)
    list.images.push_back(judged_image(run.sources.valid, answer, run.plan.pixels.valid,
                                       !run.config.output.no_pictures));
  return list;
}

}  // namespace

void restore_head(Run& run) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& own : run.state->model->head())
    for (const NamedTensor& weight : run.state->progress.best.weights)
      if (weight.name == own.name) own.tensor.copy_(weight.tensor);
}

std::string training_features_of_saved(Run& run) {
  if (!run.config.output.keep_features || run.state->progress.best.epoch == 0) return "";
  run.world.enter("features of all training images", /*patient=*/true);
  const SampleTable& samples = run.sources.train.samples;
  std::string fault;
  if (!run.plan.uses_features) {  // otherwise it has them
    restore_best(run);
    const auto all = validation_indices(static_cast<std::uint32_t>(samples.size()), {});
    run.features = gathered_pass(run, part_of_rank(all, run.plan.division.train), {}, fault);
  }
  if (!run.world.leads()) return "";
  const LabeledFeatures& known = run.features.train;
  try {
    std::string names;
    for (const std::uint32_t i : known.samples) names.append(samples.file_name(i)).push_back('\0');
    if (fault.empty())
      return training_features_file(neighbors_of(known.rows), names,
                                    to_state_dict(run.state->progress.best.weights));
  } catch (const std::exception& failure) {
    fault = failure.what();
  }
  run.console.warning("No features of all training images are kept: " + fault + ".");
  return "";
}

std::string features_of_saved(Run& run) {
  if (run.state->progress.best.epoch == 0) return "";
  run.world.enter("features of the saved model", /*patient=*/true);
  std::string file, reason = run.plan.without_features;
  if (reason.empty() && run.stop->now()) reason = "the run was stopped";
  if (reason.empty()) {
    if (!run.plan.uses_features) run.features = affordable_pass(run, reason);
    if (!run.world.leads()) return "";
    try {
      if (reason.empty()) {
        const StateDict weights = to_state_dict(run.state->progress.best.weights);
        restore_head(run);
        const LabeledFeatures& valid = run.features.valid;
        const at::Tensor log_sums = log_sums_of(*run.state->model, valid.rows);
        const Likeness likeness = known_likeness(run.features, log_sums, weights);
        if (!run.plan.division.has_own_valid)
          run.log.add_pictures(least_alike(run, likeness, valid, log_sums));
        file = features_file(likeness, weights);
      }
    } catch (const std::exception& failure) {
      reason = failure.what();
    }
  }
  if (!reason.empty() && run.world.leads())
    run.console.info("features:         none are kept: " + reason);
  return file;
}

}  // namespace kiln
