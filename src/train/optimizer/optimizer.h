// Updates weights from gradients. Each optimizer is one file NAME.cpp and one row of catalogue.h,
// for which optimizer.cpp names its function.
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
  std::vector<at::Tensor> gradients;  // in the same order, with the same strides (GradientBuckets)
  double weight_decay = 0;
  double rate = 1;  // factor on the learning rate
};

// Groups the trained parameters of `model`. There is one group, with the plan's weight decay,
// unless the head has a learning rate of its own or one-dimensional parameters (biases, and the
// scales and shifts of normalization) have no weight decay. `gradients` must be in the order of
// trained_parameters().
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

// Parameter groups with one momentum tensor per parameter: the state of SGD and LARS.

struct MomentumGroup {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters, gradients, momenta;  // in the same order
  double weight_decay, rate;
};

// Adds momenta, initially zero.
std::vector<MomentumGroup> with_momenta(std::vector<ParameterGroup> groups);

// The momenta under the names "momentum.PARAMETER", for Optimizer::state(). Not copies.
std::vector<NamedTensor> named_momenta(const std::vector<MomentumGroup>& groups);

}  // namespace kiln
