// What the labels of images mean to a network: one class each, or several. All that training and
// validation ask about it: the loss, the metrics and the answer. A task is a class in task.cpp.
#pragma once

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "record/label_scores.h"

namespace kiln {

// The likeliest classes of N images, the first one predicted: at most 5, by descending probability.
struct Answers {
  at::Tensor shares;   // float32 [N, k]: their probabilities
  at::Tensor classes;  // int64 [N, k]
};

// Logits are [N, C]; labels int64 [N], as in the dataset that the task was made for.
class Task {
 public:
  virtual ~Task() = default;

  // The loss of each image, [N], or their sum, in the logits' type. `weights` of the classes, [C],
  // may be undefined; `smoothing` is LossPlan::label_smoothing.
  virtual at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& weights, double smoothing,
                          at::Reduction::Reduction reduction) const = 0;
  // For a fit whose penalties do not know the number of classes: the loss of each image, [N],
  // without weights and smoothing, summed over the answers that are judged on their own (all
  // classes of several labels an image; else one), and its gradient by the logits, [N, C].
  virtual std::pair<at::Tensor, at::Tensor> loss_and_slope(const at::Tensor& logits,
                                                           const at::Tensor& labels) const = 0;
  // Two counts of images answered right, float64 []: the figures Totals::top1 and top5.
  virtual std::pair<at::Tensor, at::Tensor> hits(const at::Tensor& logits,
                                                 const at::Tensor& labels) const = 0;
  virtual Answers answers(const at::Tensor& logits) const = 0;
};

// One class an image: cross-entropy, and top-1 and top-5. Labels are class ids.
const Task& single_label() noexcept;

// Several classes an image: the mean over the classes of the binary cross-entropies, in which the
// weights are those of images that have the class, like PyTorch's binary_cross_entropy_with_logits
// with `pos_weight`. An image is right if exactly its classes have a probability from one half on;
// the second figure counts images whose likeliest class is one of theirs. Labels are indices into
// `sets`; if there are none, the task is single_label().
std::shared_ptr<const Task> task_of(const std::vector<std::vector<int>>& sets,
                                    std::size_t num_classes, const at::Device& device = at::kCPU);

// Fits how one class is predicted: the temperature of its probability, sigmoid(logit /
// temperature), as fit_temperature() does, the threshold with the highest F1, and the answers.
// Throws as that does.
LabelCalibration calibrated(std::span<const LabelAnswer> ranked);

}  // namespace kiln
