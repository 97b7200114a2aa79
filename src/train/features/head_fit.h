// The features of images from a frozen backbone, and a head fitted to them. The L2 penalty is
// chosen by cross-validation: the one with the lowest loss on images left out of the fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "model/image_model.h"
#include "model/operators/autocast.h"
#include "record/vocabulary.h"
#include "train/task.h"

namespace kiln {

struct LabeledFeatures {
  at::Tensor rows;                     // [N, D] float32, host, row-major; undefined for no images
  std::vector<std::int32_t> labels;    // [N]
  std::vector<std::uint32_t> samples;  // [N] indices into the samples of the loader's dataset
  std::vector<float> weights = {};     // [N] in the loss, beside those of classes; empty: all 1

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

// Those of both sets of a run.
struct FeatureSets {
  LabeledFeatures train, valid;
};

// Computes the features of images with a frozen backbone, one batch per call. One thread.
class FeaturePass {
 public:
  // All references must outlive this object. Puts the model into eval mode, and thaws it
  // (Freeze::kNone), since the casts of frozen weights would not be kept. `num_images` is the
  // maximum number of images.
  FeaturePass(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader, Precision precision,
              std::int64_t num_images);

  // Processes the next batch; false if there is none.
  bool step();
  int steps_done() const { return steps_; }
  std::int64_t images_done() const { return static_cast<std::int64_t>(features_.labels.size()); }
  // The features of all images that could be decoded, in the loader's order. Call it once.
  LabeledFeatures take();

 private:
  const KeptCasts kept_casts_;
  ImageModel& model_;
  BatchLoader& loader_;
  DeviceUploader& uploader_;
  Precision precision_;
  std::int64_t num_images_;
  int steps_ = 0;
  LabeledFeatures features_;
};

// Cross-validation folds: each part of the images is predicted by a model trained on the others.
struct Folds {
  int count = 0;        // 0: the images cannot be divided
  std::vector<int> of;  // the fold of each image, from 0
};

// Divides the images so that every fold has as equal a share of every class as whole groups allow;
// the images of a group stay in one fold. `groups` has a number for each image; if it is empty,
// each image is its own group. If there are fewer groups than folds, there are that many folds; for
// a single group, none. Deterministic: depends only on the arguments.
Folds divided_into_folds(std::span<const std::int32_t> labels,
                         std::span<const std::uint32_t> groups, int num_folds, std::uint64_t seed);

struct HeadFit {
  at::Tensor weight, bias;  // float32 [C, D], [C]; undefined: stopped early
  double penalty = 0;
  bool is_chosen = false;  // the penalty was cross-validated; false: too few images, or no time
  bool is_cut = false;     // by a time limit: the head may not be the best one
  // float32 [N, C], host: each row is computed by a layer fitted without the row's fold, with the
  // penalty that has the lowest loss on the other folds. Undefined if there are no folds.
  at::Tensor out_of_fold_logits = {};
};

// What a fit asks and tells while it works, several times a second.
struct FitWatch {
  std::function<bool()> is_stopped;  // gives the fit up; once true, it stays so
  // The share of the time for the fit that has passed: at 1 it ends with what it has. Empty: no
  // limit.
  std::function<double()> time_share = {};
  // Before each of the layers that are fitted: how many are done, and of how many at most.
  std::function<void(int done, int most)> at_layer = [](int, int) {};
};

// Without folds, uses the penalty in the middle of the range that is otherwise searched.
// `class_weights` are the weights of images in the loss, by class; empty: all 1. Throws Error
// kFailedToCompleteOperation if features are not finite.
HeadFit fit_head(const LabeledFeatures& images, int num_classes, const Folds& folds,
                 const std::vector<double>& class_weights, const FitWatch& watch,
                 const Task& task = single_label());

// float32 [N, C], host.
at::Tensor head_logits(const at::Tensor& rows, const HeadFit& head);

// The memory needed by fit_head() and the features themselves, in bytes.
double fit_memory(std::int64_t num_images, std::int64_t num_features, std::int64_t num_classes);

// Softmax regression with an L2 penalty or, of several labels, a logistic regression for each
// class: a linear layer fitted to labeled features, in float64 on the host. The loss is convex, so
// the solution does not depend on the starting point.

// The coordinates in which layers are fitted: features standardized to mean 0 and variance 1
// (constant ones become 0). If there are fewer images than features, and no more than 1000, they
// are also projected onto as many directions as there are images, which loses nothing. Does not use
// labels.
class FeatureSpace {
 public:
  // `features`: float [N, D] on the host.
  explicit FeatureSpace(const at::Tensor& features);

  // The coordinates of those features: float64 [N, R].
  const at::Tensor& coordinates() const { return coordinates_; }

  // Converts `weights` over the coordinates, float64 [R + 1, C] with the bias in the last row, to
  // the equivalent layer over the features themselves.
  HeadFit layer_of(const at::Tensor& weights) const;

 private:
  at::Tensor mean_, scale_;  // [D]
  at::Tensor directions_;    // [D, R]; undefined: not projected
  at::Tensor coordinates_;
};

struct WeightedImages {
  at::Tensor coordinates;  // float64 [N, R]
  at::Tensor labels;       // int64 [N]
  at::Tensor weights;      // float64 [N], with sum 1; 0: the image is ignored
  const Task* task = &single_label();
};

// L2 penalty on the bias. RegressionPlan::penalty, like --weight-decay, applies to the weights
// only; this one keeps the bias finite for classes without images.
inline constexpr double kBiasPenalty = 1e-4;

struct RegressionPlan {
  double penalty = 0.01;    // factor of half the sum of squared weights, added to the mean loss
  double tolerance = 1e-5;  // on the gradient
  std::function<bool()> is_stopped = {};  // asked several times a second; see minimize()
};

// Returns float64 [R + 1, C]. `start` has that shape: zeros, or the result of a similar fit.
at::Tensor fit_softmax(const WeightedImages& images, const at::Tensor& start,
                       const RegressionPlan& plan);

// float64 [N, C], from coordinates float64 [N, R] and weights float64 [R + 1, C].
at::Tensor logits_of(const at::Tensor& coordinates, const at::Tensor& weights);

// L-BFGS: minimizes a smooth convex function of many variables using its gradients. Liu and
// Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.
struct ValueAndGradient {
  double value = 0;
  at::Tensor gradient;  // same shape as the argument; not modified later
};

// Evaluates the function at a float64 [n] point.
using Objective = std::function<ValueAndGradient(const at::Tensor& at)>;

// Minimizes from `start`, float64 [n] on the host, which is not modified. The function must be
// bounded from below. `tolerance`: on the largest absolute component of the gradient. `must_stop`
// is asked after each evaluation; once true, it stays so, and the result is the best point so far:
// an evaluation during which it became true may have any value. Bit-identical results for the same
// number of threads.
at::Tensor minimize(const Objective& objective, const at::Tensor& start, double tolerance,
                    const std::function<bool()>& must_stop = {});

}  // namespace kiln
