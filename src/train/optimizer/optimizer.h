// Updates weights from gradients. Each optimizer is one file NAME.cpp and one row of catalogue.h,
// for which optimizer.cpp names its function. Before it: the loss scale of float16, and clipping;
// after it: the average of the weights.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/image_model.h"
#include "train/recipe.h"

namespace kiln {

// Parameters with the same settings. A parameter in no group is frozen.
struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  std::vector<at::Tensor> gradients;  // in the same order, with the same strides (GradientBuckets)
  double weight_decay = 0;
  double rate = 1;  // factor on the learning rate
  // In an optimizer, in the parameters' order: their tensors, and by kind, such as momenta, tensors
  // of the same shapes.
  std::vector<at::Tensor> tensors = {};
  std::vector<std::vector<at::Tensor>> states = {};
};

std::vector<at::Tensor> without_names(const std::vector<NamedTensor>& items);

// Groups the trained parameters of `model`. There is one group, with the plan's weight decay,
// unless the head or stages have a learning rate of their own or one-dimensional parameters
// (biases, and the scales and shifts of normalization) have no weight decay. `gradients` must be in
// the order of trained_parameters().
std::vector<ParameterGroup> groups_of(const ImageModel& model,
                                      const std::vector<at::Tensor>& gradients,
                                      const OptimizerPlan& plan);

// The groups share their tensors with the model and the buckets. One thread.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter in place. On a GPU the work is queued, not waited for. `skip`: float32
  // [1] on the parameters' device and read only there; if it is 1, nothing changes.
  virtual void step(double learning_rate, const std::optional<at::Tensor>& skip = {}) = 0;

  // The optimizer's state, apart from weights and gradients. State of a parameter is named
  // KIND.PARAMETER ("momentum.PARAMETER"); a name without a dot ("steps") is shared by all
  // parameters, which the parameter server relies on. The tensors are not copies: writing to them
  // changes the state.
  virtual std::vector<NamedTensor> state() const = 0;
};

// Throws InternalError for a name that no row has.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerPlan& plan,
                                          std::vector<ParameterGroup> groups);

// Adds state of this many kinds, initially zero.
std::vector<ParameterGroup> with_state(std::vector<ParameterGroup> groups, std::size_t num_kinds);

// The state under the names "KIND.PARAMETER", for Optimizer::state(). Not copies.
std::vector<NamedTensor> named_state(const std::vector<ParameterGroup>& groups,
                                     const std::vector<std::string>& kinds);

// Keeps small gradients of float16 training from vanishing: the loss is multiplied by a scale
// before backward, and the gradients are divided by it after. The scale grows until a gradient
// overflows; that step is then skipped and the scale halved.
struct LossScale {
  double scale = 65536;
  int steps_since_overflow = 0;
  int skipped_steps = 0;  // in this epoch
};

// Everything is on the device; the host waits only in values(). One thread.
class LossScaler {
 public:
  explicit LossScaler(const c10::Device& device);

  at::Tensor scaled(const at::Tensor& loss) const;

  // Call once per step, on gradients that are complete and summed over the ranks, so that all ranks
  // get the same result. Divides the gradients by the scale and adapts the scale. Returns float32
  // [1] for Optimizer::step(), valid until the next call: 1 if a gradient was not finite, otherwise
  // 0.
  const at::Tensor& unscale(const std::vector<at::Tensor>& gradients);

  LossScale values() const;  // waits for the device
  void set(const LossScale& values);
  void forget_skipped_steps();

 private:
  at::Tensor scale_, found_inf_, skipped_;  // float32 [1]
  at::Tensor growth_tracker_;               // int32 [1]: steps since the last overflow
};

// Multiplies the gradients by most / norm if their total norm exceeds `most`, like PyTorch's
// clip_grad_norm_. Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural
// networks", arXiv:1211.5063. All ranks get the same result from gradients that are summed over
// them. On a GPU the host does not wait. `gradients`: may be flat buffers, padded with zeros.
void clip_norm(const std::vector<at::Tensor>& gradients, double most);

// An exponential moving average of the weights over the steps, which generalizes better than the
// last step's. Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.
//
//   average += (1 - d) * (weight - average),  d = min(decay, (1 + n) / (10 + n)) in step n from 0
//
// so that the initial random weights are soon forgotten. BatchNorm's statistics are averaged the
// same way. One thread. On a GPU the work is queued, not waited for.
class AveragedWeights {
 public:
  // Starts from the model's current weights. The model must outlive it.
  AveragedWeights(const ImageModel& model, double decay);

  void count_step();

  // Swaps the averages with the model's weights. A second call swaps them back.
  void exchange();

  // The averages, named as in the model. The tensors are not copies: writing to them changes the
  // averages.
  const std::vector<NamedTensor>& state() const { return averages_; }
  // The averages of the model's buffers(), in their order.
  std::vector<NamedTensor> buffers() const;
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  const ImageModel& model_;
  const double decay_;
  std::int64_t steps_ = 0;
  std::vector<NamedTensor> averages_;  // of all tensors in the model's state()
  // The model's tensors and their averages: floating-point tensors, which are averaged, and counts.
  std::vector<at::Tensor> weights_, weight_averages_, counts_, count_averages_;
};

// Puts the averages into the model for its lifetime. nullptr: does nothing.
class AveragesInPlace {
 public:
  explicit AveragesInPlace(AveragedWeights* averages) : averages_(averages) {
    if (averages_ != nullptr) averages_->exchange();
  }
  ~AveragesInPlace() {
    if (averages_ != nullptr) averages_->exchange();
  }
  AveragesInPlace(const AveragesInPlace&) = delete;
  AveragesInPlace& operator=(const AveragesInPlace&) = delete;

 private:
  AveragedWeights* averages_;
};

}  // namespace kiln
