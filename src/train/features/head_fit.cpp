#include "train/features/head_fit.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/features/softmax_regression.h"

namespace kiln {
namespace {

// The penalties to try: starting from the strongest, each is half a decade below the previous one.
constexpr double kStrongestPenalty = 10;
constexpr int kMaxPenalties = 13;
constexpr double kDefaultPenalty = 0.01;
// The search stops after this many penalties in a row without improvement.
constexpr int kMaxRises = 2;
// Comparing penalties does not require exact fits.
constexpr double kPathTolerance = 3e-4, kTolerance = 1e-5;

// The share of the time for choosing the penalty; the rest is for the fit to all images.
constexpr double kPathShare = 0.7;

bool is_late(const FitWatch& watch, double share) {
  return watch.time_share && watch.time_share() > share;
}

double penalty_number(int i) {
  return kStrongestPenalty * std::pow(10, -0.5 * i);
}

at::Tensor as_tensor(const std::vector<std::int32_t>& values) {
  return at::tensor(std::vector<std::int64_t>(values.begin(), values.end()), at::kLong);
}

void require_finite(const at::Tensor& rows) {
  const auto bad = rows.size(0) - rows.isfinite().all(1).sum().item<std::int64_t>();
  if (bad > 0)
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        "The features of " + std::to_string(bad) +
            " images are not finite numbers: the network's weights are damaged, or its "
            "numbers overflow in this --precision. Use --precision fp32, or other weights.");
}

// The weight of each image, float64 [N]; without class weights, all 1.
at::Tensor weights_of(const std::vector<std::int32_t>& labels,
                      const std::vector<double>& class_weights) {
  std::vector<double> weights(labels.size(), 1);
  if (!class_weights.empty())
    std::transform(labels.begin(), labels.end(), weights.begin(), [&](std::int32_t label) {
      return class_weights[static_cast<std::size_t>(label)];
    });
  return at::tensor(weights, at::kDouble);
}

// Fits a layer for each fold along the path of penalties; each fit starts from the fold's previous
// one.
class Path {
 public:
  Path(WeightedImages images, int num_classes, const Folds& folds)
      : images_(std::move(images)),
        num_classes_(num_classes),
        rows_(static_cast<std::size_t>(folds.count)),
        layers_(rows_.size(), zeros()),
        losses_(rows_.size()),
        least_elsewhere_(rows_.size(), std::numeric_limits<double>::infinity()),
        judged_(at::empty({images_.labels.size(0), num_classes}, at::kFloat)) {
    std::vector<std::vector<std::int64_t>> rows(rows_.size());
    for (std::size_t i = 0; i < folds.of.size(); ++i)
      rows[static_cast<std::size_t>(folds.of[i])].push_back(static_cast<std::int64_t>(i));
    for (std::size_t fold = 0; fold < rows.size(); ++fold)
      rows_[fold] = at::tensor(rows[fold], at::kLong);
  }

  at::Tensor zeros() const {
    return at::zeros({images_.coordinates.size(1) + 1, num_classes_}, at::kDouble);
  }

  // Sets `penalty` and `start` to those of the best penalty. Returns false if stopped. If there is
  // no time even for the strongest one, its layers are the start for the default.
  bool walk(const FitWatch& watch) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0, rises = 0; i < kMaxPenalties && rises < kMaxRises; ++i) {
      const double loss = try_penalty(i, watch);
      if (watch.is_stopped()) return false;
      is_cut = is_late(watch, kPathShare);
      if (is_cut && i == 0) start = at::stack(layers_).mean(0);
      if (is_cut) return true;
      rises = loss < least ? 0 : rises + 1;
      if (loss >= least) continue;
      least = loss;
      penalty = penalty_number(i);
      is_chosen = true;
      start = at::stack(layers_).mean(0);
    }
    return true;
  }

  // The images with weights that sum to 1 and are 0 for `left_out`.
  WeightedImages images(const at::Tensor& left_out = {}) const {
    at::Tensor weights = images_.weights.clone();
    if (left_out.defined()) weights.index_fill_(0, left_out, 0.0);
    weights.div_(weights.sum());
    return {images_.coordinates, images_.labels, std::move(weights)};
  }
  const at::Tensor& judged() const { return judged_; }

  double penalty = kDefaultPenalty;
  bool is_chosen = false, is_cut = false;
  at::Tensor start;  // starting point for the fit to all images

 private:
  // Returns the sum of the out-of-fold losses of all images. The first penalty's fits share the
  // time, so that there is a layer for each fold.
  double try_penalty(int number, const FitWatch& watch) {
    const int num_folds = static_cast<int>(rows_.size());
    std::vector<at::Tensor> logits;
    double sum = 0;
    for (std::size_t fold = 0; fold < rows_.size() && !watch.is_stopped(); ++fold) {
      const int done = static_cast<int>(fold);
      watch.at_layer(number * num_folds + done, kMaxPenalties * num_folds + 1);
      const double share = number == 0 ? kPathShare * (done + 1) / num_folds : kPathShare;
      layers_[fold] = fit_softmax(images(rows_[fold]), layers_[fold],
                                  {penalty_number(number), kPathTolerance,
                                   [&] { return watch.is_stopped() || is_late(watch, share); }});
      const auto judged = [&](const at::Tensor& all) { return all.index_select(0, rows_[fold]); };
      logits.push_back(logits_of(judged(images_.coordinates), layers_[fold]));
      const at::Tensor of_labels =
          logits.back().log_softmax(1).gather(1, judged(images_.labels).unsqueeze(1)).squeeze(1);
      losses_[fold] = -of_labels.dot(judged(images_.weights)).item<double>();
      sum += losses_[fold];
    }
    if (logits.size() == rows_.size()) keep_better(logits, sum);
    return sum;
  }

  // Keeps the out-of-fold logits of the best penalty so far. For each fold that is the penalty with
  // the lowest loss on the other folds: an image must not influence its own penalty.
  void keep_better(const std::vector<at::Tensor>& logits, double sum) {
    for (std::size_t fold = 0; fold < rows_.size(); ++fold) {
      const double elsewhere = sum - losses_[fold];
      if (elsewhere >= least_elsewhere_[fold]) continue;
      least_elsewhere_[fold] = elsewhere;
      judged_.index_copy_(0, rows_[fold], logits[fold].to(at::kFloat));
    }
  }

  WeightedImages images_;
  std::int64_t num_classes_;
  // One element per fold.
  std::vector<at::Tensor> rows_;         // the images in the fold
  std::vector<at::Tensor> layers_;       // fitted without the fold
  std::vector<double> losses_;           // on the fold, with the last penalty
  std::vector<double> least_elsewhere_;  // the lowest loss so far on the other folds
  at::Tensor judged_;
};

}  // namespace

HeadFit fit_head(const LabeledFeatures& images, int num_classes, const Folds& folds,
                 const std::vector<double>& class_weights, const FitWatch& watch) {
  const at::NoGradGuard no_grad;
  require_finite(images.rows);
  const FeatureSpace space(images.rows);
  Path path(
      {space.coordinates(), as_tensor(images.labels), weights_of(images.labels, class_weights)},
      num_classes, folds);
  HeadFit fit;
  path.start = path.zeros();
  if (folds.count > 0) {
    if (!path.walk(watch)) return {};
    fit.is_chosen = path.is_chosen;
    fit.out_of_fold_logits = path.judged();
  }
  fit.penalty = path.penalty;
  const int most = kMaxPenalties * folds.count + 1;
  watch.at_layer(most - 1, most);
  const at::Tensor weights = fit_softmax(
      path.images(), path.start,
      {fit.penalty, kTolerance, [&] { return watch.is_stopped() || is_late(watch, 1); }});
  if (watch.is_stopped()) return {};
  fit.is_cut = path.is_cut || is_late(watch, 1);
  const FeatureSpace::Layer layer = space.layer_of(weights);
  fit.weight = layer.weight;
  fit.bias = layer.bias;
  return fit;
}

at::Tensor head_logits(const at::Tensor& rows, const HeadFit& head) {
  return at::linear(rows, head.weight, head.bias);
}

double fit_memory(std::int64_t num_images, std::int64_t num_features, std::int64_t num_classes) {
  // The features in float32 and twice in float64, and a few [N, C] tensors.
  return static_cast<double>(num_images) *
         (20.0 * static_cast<double>(num_features) + 40.0 * static_cast<double>(num_classes));
}

}  // namespace kiln
