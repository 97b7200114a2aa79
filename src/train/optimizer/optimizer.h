// Updates weights from gradients. An optimizer is one file NAME.cpp and one row of catalogue.h, for
// which optimizer.cpp names its function.
#pragma once

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
  std::vector<at::Tensor> gradients;  // of the same order and strides (GradientBuckets)
  double weight_decay = 0;
  double rate = 1;  // factor on the learning rate
};

// The trained parameters of `model`, with the plan's weight decay: in one group, or in more where
// its head has a rate of its own, or what has one dimension (biases, and the scales and shifts of
// normalization) no weight decay. `gradients` are in the order of trained_parameters().
std::vector<ParameterGroup> groups_of(const ImageModel& model,
                                      const std::vector<at::Tensor>& gradients,
                                      const OptimizerPlan& plan);

// One thread. The tensors of the groups are those of the model and the buckets, not copies.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter in place; on a GPU the work is queued, not waited for. `skip`: float32
  // [1] on the parameters' device, which only it reads; 1: nothing changes.
  virtual void step(double learning_rate, const std::optional<at::Tensor>& skip = {}) = 0;

  // The optimizer's state besides weights and gradients. What belongs to a parameter is named
  // KIND.PARAMETER ("momentum.PARAMETER"); a name without a dot ("steps") belongs to all parameters
  // alike: the parameter server combines the states of its ranks by this. The tensors are not
  // copies: writing to them sets the state.
  virtual std::vector<NamedTensor> state() const = 0;
};

// Throws InternalError for a name that no row has.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerPlan& plan,
                                          std::vector<ParameterGroup> groups);

}  // namespace kiln
