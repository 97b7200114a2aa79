// What changes the weights by their gradients. An optimizer is one file optimizer_NAME.cpp and one
// row of the table in optimizer.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/image_model.h"
#include "train/recipe.h"

namespace kiln {

// Parameters that are treated alike. A parameter in no group is frozen.
struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  std::vector<at::Tensor> gradients;  // of the same order and strides (GradientBuckets)
  double weight_decay = 0;
};

// All parameters of `model` in one group, with the plan's weight decay. `gradients` are in the
// order of the parameters.
std::vector<ParameterGroup> one_group(const ImageModel& model,
                                      const std::vector<at::Tensor>& gradients,
                                      const OptimizerPlan& plan);

// One thread. The tensors of the groups are the model's and the buckets' own.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Changes every parameter in place; on a GPU queued, not waited for.
  virtual void step(double learning_rate) = 0;

  // All that the next step depends on beside weights and gradients, named "momentum.PARAMETER".
  // The tensors are the optimizer's own: whoever writes to them sets its state.
  virtual std::vector<NamedTensor> state() const = 0;
};

// Throws InternalError for a name that no row has.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerPlan& plan,
                                          std::vector<ParameterGroup> groups);

}  // namespace kiln
