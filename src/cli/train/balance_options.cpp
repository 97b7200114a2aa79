// The options of `kiln train` for classes of different sizes.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

BestBy best_by(const std::string& word) {
  if (word == "loss") return BestBy::kLoss;
  return word == "macro-recall" ? BestBy::kMacroRecall : BestBy::kTop1;
}

ClassWeights class_weights(const std::string& word) {
  if (word == "sqrt") return ClassWeights::kSqrt;
  return word == "balanced" ? ClassWeights::kBalanced : ClassWeights::kNone;
}

}  // namespace

std::vector<TrainOption> balance_options() {
  return {
      {Effect::kResult,
       choice("class-weights", {"none", "sqrt", "balanced"}, kTraining,
              "Weight of an image in the training loss, by its class. balanced: all images / "
              "(classes x images of its class). sqrt: the square root of that, scaled so that the "
              "mean weight of all images is 1. Reported losses stay unweighted.")},
      {Effect::kResult,
       choice("sample", {"shuffle", "balanced"}, kTraining,
              "Which images an epoch has. shuffle: each once. balanced: the same number in all, "
              "but equally many from every class; images of small classes repeat, augmented "
              "differently, and those of large classes take turns over the epochs.")},
      {Effect::kResult,
       choice("best-by", {"top1", "loss", "macro-recall"}, kReporting,
              "The epoch that --save best saves. top1: the highest validation top-1; ties go to "
              "the lowest loss. loss: the lowest validation loss. macro-recall: the highest mean "
              "recall over the classes that have validation images.")},
  };
}

void bind_balance(Binder& binder, OptimizationConfig& config) {
  config.class_weights = class_weights(binder.choice("class-weights"));
  config.sample = binder.choice("sample") == "balanced" ? Sampling::kBalanced : Sampling::kShuffle;
  config.best_by = best_by(binder.choice("best-by"));
  if (config.sample == Sampling::kBalanced && config.class_weights != ClassWeights::kNone)
    binder.fault("class-weights", ErrorCode::kParameterParsing,
                 "--sample balanced already draws every class equally often, so --class-weights "
                 "would favor small classes twice: use one of the two.");
  if (config.save == SaveChoice::kLast && config.best_by != BestBy::kTop1)
    binder.fault("best-by", ErrorCode::kParameterParsing,
                 "--best-by chooses the epoch that --save best saves, but --save is last: leave "
                 "one of them out.");
}

}  // namespace kiln
