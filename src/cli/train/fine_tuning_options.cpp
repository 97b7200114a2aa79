// The options of `kiln train` for training only part of a network, and for cross-validation.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

constexpr std::int64_t kMostFolds = 20;

void check_folds(Binder& binder, const TrainConfig& config) {
  const OptimizationConfig& optimization = config.optimization;
  if (optimization.folds == 0) return;
  if (optimization.folds == 1)
    binder.fault("folds", ErrorCode::kParameterParsing,
                 "--folds is 1, but cross-validation needs at least 2: use 2 or more, or 0.");
  if (optimization.freeze != Freeze::kBackbone || config.data.augment != Augment::kNone)
    binder.fault("folds", ErrorCode::kParameterParsing,
                 "--folds judges images by the features of a frozen network, but this command "
                 "trains the network in epochs: add --freeze backbone and --augment none, or leave "
                 "--folds out.");
  if (config.data.has_train_shard)
    binder.fault("folds", ErrorCode::kParameterParsing,
                 "--folds divides images that all ranks share, but with --shard-by none or train "
                 "each host has its own images: use --shard-by rank, or leave --folds out.");
  if (binder.given("data-path") && binder.given("valid-fraction"))
    binder.fault("valid-fraction", ErrorCode::kParameterParsing,
                 "--folds judges every image of --data-path, so none are set aside: leave "
                 "--valid-fraction out, or --folds.");
}

}  // namespace

std::vector<TrainOption> fine_tuning_options() {
  return {
      {Effect::kResult,
       choice("freeze", {"none", "backbone", "norm"}, kTraining,
              "Layers that are not trained. backbone: all but the last linear layer; with "
              "--augment none each image goes through the network once, and the layer is fitted to "
              "the features instead of training for epochs. norm: BatchNorm.")},
      {Effect::kResult, number("head-learning-rate", "", 1000, kTraining,
                               "Learning rate of the last linear layer, scheduled and scaled like "
                               "--learning-rate, which is the default.")},
      {Effect::kResult,
       integer("folds", "0", 0, kMostFolds, "parts", kTraining,
               "Cross-validation, for --freeze backbone and --augment none: split the training "
               "images into this many folds, and judge each by a layer fitted to the others; the "
               "saved one is fitted to all. 0: off.")},
  };
}

void bind_fine_tuning(Binder& binder, OptimizationConfig& config) {
  config.freeze = freeze_named(binder.choice("freeze")).value_or(Freeze::kNone);
  if (binder.given("head-learning-rate"))
    config.head_learning_rate = binder.number("head-learning-rate");
  config.folds = binder.small_integer("folds");
}

void settle_fine_tuning(Binder& binder, TrainConfig& config) {
  if (config.optimization.freeze != Freeze::kNone && config.ranks.sync_batch_norm)
    binder.fault("sync-batch-norm", ErrorCode::kParameterParsing,
                 "--sync-batch-norm has nothing to synchronize, since --freeze also freezes "
                 "BatchNorm: leave one of the two out.");
  check_folds(binder, config);
  SplitConfig& split = config.data.split;
  split.all_train = config.optimization.folds > 0 && split.file.empty();
}

}  // namespace kiln
