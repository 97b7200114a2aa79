#include "run/plan/fold_plan.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/split/split_files.h"
#include "features/folds.h"
#include "run/out_of_fold.h"

namespace kiln {
namespace {

// Rejects options that ask to fit a head to features if the images or the network do not allow it.
void check_features(const TrainingJob& job) {
  const TransformSpec& pixels = job.inputs.pixels;
  if (job.config.optimization.freeze != Freeze::kBackbone ||
      job.config.data.augment != Augment::kNone)
    return;
  if (pixels.chain && pixels.chain->whole.is_random())
    throw Error(ErrorCode::kUserError,
                "--folds with --freeze backbone needs the same pixels in every epoch, but "
                "--transform-path has random operations (" +
                    pixels.chain->whole.summary() +
                    "): remove those whose names begin with Random, or leave --folds out.");
  throw Error(ErrorCode::kUserError,
              "--folds with --freeze backbone and --augment none cannot be used with a network "
              "that ends in two linear layers, like one made by `kiln init-model --pretrained "
              "True`: leave --folds out, or use --augment flip, which trains in epochs.");
}

// The fold of each image. Call on rank 0, which alone knows which images belong together.
std::string divided(const TrainingJob& job) {
  const OptimizationConfig& config = job.config.optimization;
  const SampleTable& samples = job.inputs.train.samples;
  std::vector<std::int32_t> labels(samples.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = samples.label(i);
  const auto& split = job.inputs.split;
  const Folds folds =
      divided_into_folds(labels, split ? split->train_groups : std::vector<std::uint32_t>(),
                         config.folds, static_cast<std::uint64_t>(config.random_seed));
  require_folds(folds, config.folds);
  return {folds.of.begin(), folds.of.end()};
}

void check_steps_of_folds(const TrainingJob& job) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(job.config.optimization.folds));
  for (const int fold : job.fold_of) ++sizes[static_cast<std::size_t>(fold)];
  const std::int64_t fewest =
      static_cast<std::int64_t>(job.fold_of.size()) - *std::max_element(sizes.begin(), sizes.end());
  const std::int64_t needed = job.inputs.train_shard.images_per_step();
  if (fewest >= needed) return;
  throw Error(
      ErrorCode::kInvalidDataset,
      formatted("With --folds %d a network has only %lld training images, but the global batch has "
                "%lld: use a smaller --batch-size or --accumulate, fewer ranks, or more images.",
                job.config.optimization.folds, static_cast<long long>(fewest),
                static_cast<long long>(needed)));
}

}  // namespace

void settle_folds(TrainingJob& job) {
  OptimizationConfig& config = job.config.optimization;
  if (config.folds == 0 || job.uses_features) return;
  World& world = job.world;
  std::string parts;
  world.agree([&] {
    check_features(job);
    if (world.leads()) parts = divided(job);
  });
  parts = world.broadcast(parts);
  job.fold_of.assign(parts.begin(), parts.end());
  world.agree([&] { check_steps_of_folds(job); });
  // The images used for evaluation must not also choose anything.
  config.save = SaveChoice::kLast;
  config.recipe.stop_when = StopWhen::kOff;
  if (auto& split = job.inputs.split)
    split->csv = format_split(job.inputs.train, std::vector<Side>(job.fold_of.size(), Side::kTrain),
                              split->train_groups, job.fold_of);
}

std::string fold_plan_text(const TrainingJob& job) {
  return formatted(
      "%d; first, for each fold, a network is trained on the other images for the same number of "
      "epochs and then predicts the fold; the last epoch is saved",
      job.config.optimization.folds);
}

at::Tensor empty_fold_logits(const TrainingJob& job) {
  return at::full({static_cast<std::int64_t>(job.inputs.train.samples.size()),
                   static_cast<std::int64_t>(job.inputs.train.classes.size())},
                  std::numeric_limits<float>::quiet_NaN(), at::kFloat);
}

}  // namespace kiln
