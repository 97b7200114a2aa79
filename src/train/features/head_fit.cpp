#include "train/features/head_fit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "train/precision.h"

namespace kiln {
namespace {

// Images that must stay in the same fold, or those of a fold so far.
struct Group {
  std::vector<std::uint32_t> images;
  std::map<std::int32_t, int> classes;  // number of images by class
};

// The groups from largest to smallest, since large ones are the hardest to place; groups of equal
// size are in random order.
std::vector<Group> groups_in_order(std::span<const std::int32_t> labels,
                                   std::span<const std::uint32_t> numbers, std::uint64_t seed) {
  constexpr std::uint64_t kPurpose = 0x666f6c6473;  // "folds"
  std::vector<Group> groups;
  std::map<std::uint32_t, std::size_t> places;  // indices into `groups`, by group number
  for (const std::uint32_t image : permutation(labels.size(), {kPurpose, seed})) {
    const std::uint32_t number = numbers.empty() ? image : numbers[image];
    const auto [place, is_new] = places.emplace(number, groups.size());
    if (is_new) groups.emplace_back();
    Group& group = groups[place->second];
    group.images.push_back(image);
    ++group.classes[labels[image]];
  }
  std::ranges::stable_sort(groups, std::greater{},
                           [](const Group& group) { return group.images.size(); });
  return groups;
}

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

void require_finite(const at::Tensor& rows) {
  const auto bad = rows.size(0) - rows.isfinite().all(1).sum().item<std::int64_t>();
  if (bad > 0)
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        "The features of " + std::to_string(bad) +
            " images are not finite numbers: the network's weights are damaged, or its "
            "numbers overflow in this --precision. Use --precision fp32, or other weights.");
}

// The weight of each image, float64 [N].
at::Tensor weights_of(const LabeledFeatures& images, const std::vector<double>& class_weights) {
  std::vector<double> weights(images.labels.size(), 1);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!class_weights.empty()) weights[i] = class_weights[images.labels[i]];
    if (!images.weights.empty()) weights[i] *= static_cast<double>(images.weights[i]);
  }
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
    for (std::size_t i = 0; i < folds.of.size(); ++i) rows[folds.of[i]].push_back(i);
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
    return {images_.coordinates, images_.labels, std::move(weights), images_.task};
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
      const at::Tensor losses =
          images_.task->loss_and_slope(logits.back(), judged(images_.labels)).first;
      losses_[fold] = losses.dot(judged(images_.weights)).item<double>();
      sum += losses_[fold];
    }
    // Keeps the out-of-fold logits of the best penalty so far. For each fold that is the penalty
    // with the lowest loss on the other folds: an image must not influence its own penalty.
    for (std::size_t fold = 0; fold < rows_.size() && logits.size() == rows_.size(); ++fold) {
      const double elsewhere = sum - losses_[fold];
      if (elsewhere >= least_elsewhere_[fold]) continue;
      least_elsewhere_[fold] = elsewhere;
      judged_.index_copy_(0, rows_[fold], logits[fold].to(at::kFloat));
    }
    return sum;
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

// Up to this many images, finding the directions takes less time than they save.
constexpr std::int64_t kMaxDirections = 1000;
// A relative variance below this is rounding error.
constexpr double kNoVariance = 1e-12;

at::Tensor weights_part(const at::Tensor& weights) {
  return weights.narrow(0, 0, weights.size(0) - 1);
}

at::Tensor bias_part(const at::Tensor& weights) {
  return weights.select(0, weights.size(0) - 1);
}

// Multiplications between two questions whether to stop: well below a second.
constexpr std::int64_t kMaxAtOnce = 4'000'000'000;

// Adds to `sum`, which may be undefined.
void add(at::Tensor& sum, const at::Tensor& part) {
  sum = sum.defined() ? sum + part : part;
}

// The weighted mean of the losses plus the penalties, and its gradient.
ValueAndGradient penalized_loss(const WeightedImages& images, const at::Tensor& weights,
                                const RegressionPlan& plan) {
  const at::Tensor w = weights_part(weights), b = bias_part(weights);
  const std::int64_t num_images = images.labels.size(0);
  const std::int64_t most = std::max<std::int64_t>(64, kMaxAtOnce / weights.numel());
  double loss = 0;
  at::Tensor of_weights, of_bias;
  for (std::int64_t begin = 0; begin < num_images; begin += most) {
    const auto part = [&, count = std::min(most, num_images - begin)](const at::Tensor& all) {
      return all.narrow(0, begin, count);
    };
    auto [losses, excess] = images.task->loss_and_slope(
        logits_of(part(images.coordinates), weights), part(images.labels));
    loss += losses.dot(part(images.weights)).item<double>();
    excess.mul_(part(images.weights).unsqueeze(1));
    add(of_weights, part(images.coordinates).t().mm(excess));
    add(of_bias, excess.sum(0));
    if (plan.is_stopped && plan.is_stopped()) break;
  }
  at::Tensor gradient = at::empty_like(weights);
  weights_part(gradient).copy_(of_weights + plan.penalty * w);
  bias_part(gradient).copy_(of_bias + kBiasPenalty * b);
  const double penalties = 0.5 * plan.penalty * w.square().sum().item<double>() +
                           0.5 * kBiasPenalty * b.square().sum().item<double>();
  return {loss + penalties, gradient};
}

// Of L-BFGS:
constexpr int kMaxSteps = 1000;
constexpr std::size_t kMemory = 10;      // steps remembered
constexpr double kSufficient = 1e-4;     // Armijo: required share of the predicted decrease
constexpr double kShortestStep = 1e-12;  // below this, rounding hides any decrease

double product(const at::Tensor& a, const at::Tensor& b) {
  return a.dot(b).item<double>();
}

// A past step and the change of the gradient along it, which carry the curvature information.
struct Memory {
  at::Tensor step, change;
  double curvature = 0;  // step . change
};

// The search direction: minus the gradient times the approximate inverse Hessian, by the two-loop
// recursion.
at::Tensor direction(const at::Tensor& gradient, const std::deque<Memory>& memories) {
  at::Tensor way = gradient.neg();
  if (memories.empty()) return way.div_(std::max(1.0, gradient.norm().item<double>()));
  std::vector<double> shares;
  for (auto past = memories.rbegin(); past != memories.rend(); ++past) {
    shares.push_back(product(past->step, way) / past->curvature);
    way.sub_(past->change, shares.back());
  }
  const Memory& last = memories.back();
  way.mul_(last.curvature / product(last.change, last.change));
  for (const Memory& past : memories) {
    way.add_(past.step, shares.back() - product(past.change, way) / past.curvature);
    shares.pop_back();
  }
  return way;
}

}  // namespace

FeaturePass::FeaturePass(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader,
                         Precision precision, std::int64_t num_images)
    : model_(model),
      loader_(loader),
      uploader_(uploader),
      precision_(precision),
      num_images_(num_images) {
  model_.freeze(Freeze::kNone);
  model_.train(false);
}

bool FeaturePass::step() {
  const HostBatch* batch = loader_.next();
  if (batch == nullptr) return false;
  ++steps_;
  if (batch->count == 0) return true;
  const at::NoGradGuard no_grad;
  const at::Tensor rows = outputs_of(model_, uploader_.upload(*batch).images, precision_).features;
  // Allocated once for all images, so that joining the batches needs no extra memory.
  if (!features_.rows.defined()) features_.rows = at::empty({num_images_, rows.size(1)});
  features_.rows.narrow(0, images_done(), rows.size(0)).copy_(rows);
  for (const std::int64_t label : batch->labels) features_.labels.push_back(label);
  features_.samples.insert(features_.samples.end(), batch->samples.begin(), batch->samples.end());
  return true;
}

LabeledFeatures FeaturePass::take() {
  if (features_.rows.defined()) features_.rows = features_.rows.narrow(0, 0, images_done());
  return std::move(features_);
}

Folds divided_into_folds(std::span<const std::int32_t> labels,
                         std::span<const std::uint32_t> groups, int num_folds, std::uint64_t seed) {
  const std::vector<Group> in_order = groups_in_order(labels, groups, seed);
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(num_folds), in_order.size());
  if (count < 2) return {};
  std::map<std::int32_t, int> totals;
  for (const std::int32_t label : labels) ++totals[label];
  std::vector<Group> folds(count);
  Folds result{static_cast<int>(count), std::vector<int>(labels.size())};
  for (const Group& group : in_order) {
    // How full a fold already is with the classes of the group, and its size.
    const auto crowding = [&](const Group& fold) {
      double sum = 0;
      for (const auto& [label, images] : group.classes)
        if (const auto mine = fold.classes.find(label); mine != fold.classes.end())
          sum += static_cast<double>(images) * mine->second / totals.at(label);
      return std::pair(sum, fold.images.size());
    };
    const auto best = std::ranges::min_element(folds, {}, crowding);
    best->images.insert(best->images.end(), group.images.begin(), group.images.end());
    for (const auto& [label, images] : group.classes) best->classes[label] += images;
    for (const std::uint32_t image : group.images) result.of[image] = best - folds.begin();
  }
  return result;
}

HeadFit fit_head(const LabeledFeatures& images, int num_classes, const Folds& folds,
                 const std::vector<double>& class_weights, const FitWatch& watch,
                 const Task& task) {
  const at::NoGradGuard no_grad;
  require_finite(images.rows);
  const FeatureSpace space(images.rows);
  const std::vector<std::int64_t> labels(images.labels.begin(), images.labels.end());
  Path path({space.coordinates(), at::tensor(labels, at::kLong), weights_of(images, class_weights),
             &task},
            num_classes, folds);
  path.start = path.zeros();
  if (folds.count > 0 && !path.walk(watch)) return {};
  const int most = kMaxPenalties * folds.count + 1;
  watch.at_layer(most - 1, most);
  const at::Tensor weights = fit_softmax(
      path.images(), path.start,
      {path.penalty, kTolerance, [&] { return watch.is_stopped() || is_late(watch, 1); }});
  if (watch.is_stopped()) return {};
  const bool is_cut = path.is_cut || is_late(watch, 1);
  HeadFit fit = space.layer_of(weights);
  fit.penalty = path.penalty;
  fit.is_chosen = path.is_chosen;
  fit.is_cut = is_cut;
  if (folds.count > 0) fit.out_of_fold_logits = path.judged();
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

FeatureSpace::FeatureSpace(const at::Tensor& features) {
  const at::NoGradGuard no_grad;
  coordinates_ = features.to(at::kDouble);
  mean_ = coordinates_.mean(0);
  const at::Tensor variance = coordinates_.var(0, /*unbiased=*/false);
  // A feature that is constant over all images carries no information: it becomes 0.
  const at::Tensor varies = variance > kNoVariance * mean_.square();
  scale_ = at::where(varies, variance.clamp_min(1e-300).rsqrt(), at::zeros_like(variance));
  coordinates_ = (coordinates_ - mean_).mul_(scale_);
  const std::int64_t num_images = features.size(0);
  if (num_images >= features.size(1) || num_images > kMaxDirections) return;
  const auto [squares, images] = at::linalg_eigh(coordinates_.mm(coordinates_.t()));
  const double largest = squares.max().item<double>();
  const at::Tensor kept = (squares > kNoVariance * largest).nonzero().squeeze(1);
  if (kept.size(0) == 0) return;
  const at::Tensor lengths = squares.index_select(0, kept).sqrt();
  const at::Tensor basis = images.index_select(1, kept);
  directions_ = coordinates_.t().mm(basis) / lengths;
  coordinates_ = basis * lengths;
}

HeadFit FeatureSpace::layer_of(const at::Tensor& weights) const {
  const at::NoGradGuard no_grad;
  const at::Tensor along = weights_part(weights);
  const at::Tensor w =
      (directions_.defined() ? directions_.mm(along) : along) * scale_.unsqueeze(1);  // [D, C]
  const at::Tensor bias = bias_part(weights) - mean_.unsqueeze(0).mm(w).squeeze(0);
  return {.weight = w.t().to(at::kFloat).contiguous(), .bias = bias.to(at::kFloat).contiguous()};
}

at::Tensor fit_softmax(const WeightedImages& images, const at::Tensor& start,
                       const RegressionPlan& plan) {
  const at::IntArrayRef shape = start.sizes();
  const Objective objective = [&](const at::Tensor& place) {
    ValueAndGradient found = penalized_loss(images, place.view(shape), plan);
    found.gradient = found.gradient.view({-1});
    return found;
  };
  return minimize(objective, start.reshape({-1}), plan.tolerance, plan.is_stopped).view(shape);
}

at::Tensor logits_of(const at::Tensor& coordinates, const at::Tensor& weights) {
  return at::addmm(bias_part(weights), coordinates, weights_part(weights));
}

at::Tensor minimize(const Objective& objective, const at::Tensor& start, double tolerance,
                    const std::function<bool()>& must_stop) {
  const at::NoGradGuard no_grad;
  const auto is_stopped = [&] { return must_stop && must_stop(); };
  std::deque<Memory> memories;
  at::Tensor place = start;
  ValueAndGradient now = objective(place);
  for (int step = 0; step < kMaxSteps && !is_stopped(); ++step) {
    if (now.gradient.abs().max().item<double>() <= tolerance) break;
    const at::Tensor way = direction(now.gradient, memories);
    const double slope = product(now.gradient, way);
    double length = 1;
    at::Tensor next = place + way;
    ValueAndGradient there = objective(next);
    // Negated rather than ">", so that the step is also halved if the value is NaN.
    while (!is_stopped() && length > kShortestStep &&
           !(there.value <= now.value + kSufficient * length * slope)) {
      length /= 2;
      next = place + way * length;
      there = objective(next);
    }
    if (length <= kShortestStep || is_stopped()) break;
    Memory memory{next - place, there.gradient - now.gradient, 0};
    memory.curvature = product(memory.step, memory.change);
    if (memory.curvature > 0) memories.push_back(std::move(memory));
    if (memories.size() > kMemory) memories.pop_front();
    place = std::move(next);
    now = std::move(there);
  }
  return place;
}

}  // namespace kiln
