// The options of `kiln train` for training only part of a network, and for cross-validation.
#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {
namespace {

constexpr std::int64_t kMostFolds = 20;

// For folds that each train a network, as the run itself does. Refuses options that choose the
// model by validation images, or that would end training at a different point in the folds.
void check_trained_folds(Binder& binder, const TrainConfig& config) {
  const OptimizationConfig& optimization = config.optimization;
  if (config.data.split.data_path.empty() || !config.data.split.file.empty())
    binder.fault("folds", ErrorCode::kParameterParsing,
                 "--folds judges every image by a network that was not trained on it, so none are "
                 "set aside for validation: give all as --data-path, without --split; or add "
                 "--freeze backbone and --augment none, which allow both.");
  const auto refuse = [&](const char* name, bool is_given, const std::string& reason) {
    if (is_given)
      binder.fault(name, ErrorCode::kParameterParsing,
                   "--folds and --" + std::string(name) + " are both given, but " + reason +
                       ": leave one of the two out.");
  };
  refuse("time-limit", optimization.time_limit_s > 0,
         "the networks of the folds train for --epochs, like the run itself");
  refuse("steps", optimization.steps > 0,
         "the networks of the folds have fewer steps per epoch than the run");
  const std::string chosen =
      "validation images must not choose the model, so the last epoch is saved";
  refuse("save", binder.given("save") && optimization.save == SaveChoice::kBest, chosen);
  refuse("best-by", binder.given("best-by"), chosen);
  refuse("patience", binder.given("patience"), chosen);
  refuse("stop-when", optimization.recipe.stop_when == StopWhen::kBest, chosen);
}

void check_folds(Binder& binder, const TrainConfig& config) {
  const OptimizationConfig& optimization = config.optimization;
  if (optimization.folds == 0) return;
  if (optimization.folds == 1)
    binder.fault("folds", ErrorCode::kParameterParsing,
                 "--folds is 1, but cross-validation needs at least 2: use 2 or more, or 0.");
  if (optimization.freeze != Freeze::kBackbone || config.data.augment != Augment::kNone)
    check_trained_folds(binder, config);
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
               "Cross-validation: split the training images into this many folds, and judge each "
               "by a model trained on the others; the saved model is trained on all. With --freeze "
               "backbone and --augment none each fold takes seconds; otherwise it trains a network "
               "for --epochs before the run, and needs --data-path. 0: off.")},
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
