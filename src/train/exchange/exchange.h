// The end of a step: how the gradients of all ranks become their next weights. Each exchange is a
// row of the catalogue.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "train/exchange/catalogue.h"
#include "train/recipe.h"

namespace kiln {

class StepContext;
struct TrainState;

// What a step passes to the exchange that ends it.
struct StepUpdate {
  double learning_rate = 0;
  double clip_norm = 0;  // 0: gradients stay as they are
  // Whether this rank trained on any image, or another rank may have and gradients are summed.
  bool has_trained = false;
};

// One thread.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Call before the step's last backward.
  virtual void begin() {}
  // Call after it. Afterwards the model has the weights for the next step. Reports the phases from
  // kCommunication on to `context`. Every rank calls it once per step, even if its batch was empty.
  virtual void finish(const StepUpdate& update, StepContext& context) = 0;
  // Call between two steps: gives every rank the same weights and optimizer state. A collective.
  virtual void gather_state() {}
  // What the log says about it before the first step: labels and their texts.
  virtual std::vector<std::pair<std::string, std::string>> plan() const { return {}; }
};

// The catalogue's first row and the default of TrainState. `state` must outlive it.
std::unique_ptr<Exchange> make_all_reduce(TrainState& state);

// Throws Error kUserError if the exchange needs more ranks, or does not work on this device.
void check_exchange(const ExchangePlan& plan, int num_ranks, const Device& device);

// A collective, called after the state has been restored. `optimizer`: as in the state. The last
// three arguments must outlive the exchange.
std::unique_ptr<Exchange> make_exchange(const ExchangePlan& plan, const OptimizerPlan& optimizer,
                                        TrainState& state, World& world,
                                        Communicator& communicator);

}  // namespace kiln
