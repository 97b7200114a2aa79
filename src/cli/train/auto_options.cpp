// The option --auto of `kiln train`: whether kiln decides how a network with given weights is
// trained.
#include <algorithm>
#include <array>
#include <string>

#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

// The options that --auto decides. With an explicit --auto True, the first three are refused, and
// the others keep the values that they are given.
constexpr std::array kDecided = {"freeze",           "folds",         "transform-path",
                                 "augment",          "epochs",        "steps",
                                 "num-warmup-steps", "learning-rate", "head-learning-rate"};

// Reports a fault if `option` is given together with --auto True, which cannot use it.
void refuse_beside(Binder& binder, const char* option, const std::string& reason) {
  if (!binder.given(option)) return;
  binder.fault(option, ErrorCode::kParameterParsing,
               "--auto True and --" + std::string(option) + " are both given, but " + reason +
                   ": leave one of the two out.");
}

void check_auto(Binder& binder, const TrainConfig& config) {
  refuse_beside(binder, "freeze", "--auto decides which layers are frozen");
  refuse_beside(binder, "folds", "--auto compares models on validation images");
  refuse_beside(binder, "transform-path", "--auto decides the augmentation");
  if (config.ranks.sync_batch_norm)
    refuse_beside(binder, "sync-batch-norm", "the head is fitted while BatchNorm is frozen");
  if (config.data.has_train_shard)
    refuse_beside(binder, config.data.has_own_images() ? "train-data-path" : "shard-by",
                  "the head is fitted to images that all ranks share");
  if (binder.given("model-name") && !binder.given("weights"))
    binder.fault("auto", ErrorCode::kParameterParsing,
                 "--auto True starts from the features of a pretrained network, but the weights "
                 "are random: give pretrained ones with --weights, or leave --auto out.");
}

// Decides whether --auto is on when it is not given, as far as the command line can tell: the
// number of images is not known yet.
AutoConfig automatic_choice(const Binder& binder, const TrainConfig& config) {
  const DataConfig& data = config.data;
  const bool may_have_weights = binder.given("weights") || binder.given("untrained-model-path");
  if (data.split.data_path.empty() || !may_have_weights) return {};
  const auto* const decided = std::find_if(
      kDecided.begin(), kDecided.end(), [&](const char* option) { return binder.given(option); });
  if (decided != kDecided.end()) return {.why_not = "--" + std::string(*decided) + " is given"};
  if (config.ranks.sync_batch_norm) return {.why_not = "--sync-batch-norm is given"};
  if (const KnownExchange& exchange = *config.ranks.exchange.kind; exchange.refuses("auto"))
    return {.why_not = "--exchange is " + std::string(exchange.name)};
  return {.choice = AutoChoice::kIfFewImages};
}

}  // namespace

std::vector<TrainOption> auto_options() {
  return {
      {Effect::kResult,
       yes_or_no("auto", ValueKind::kBoolean, "", kTraining,
                 "True: fit the last linear layer to the features of the frozen network, then "
                 "fine-tune the entire network from there while --time-limit allows, and keep that "
                 "only if it is better on the validation images by McNemar's test at 5 %. Default: "
                 "True for --data-path with given weights and under 5000 images, unless an option "
                 "that it decides is given, such as --freeze, --epochs or --learning-rate.")},
  };
}

void settle_auto(Binder& binder, TrainConfig& config) {
  AutoConfig& settled = config.optimization.automatic;
  if (!binder.given("auto")) {
    settled = automatic_choice(binder, config);
  } else if (binder.boolean("auto")) {
    settled.choice = AutoChoice::kYes;
    check_auto(binder, config);
  }
  settled.sets_learning_rate = !binder.given("learning-rate");
  settled.sets_augment = !binder.given("augment");
}

}  // namespace kiln
