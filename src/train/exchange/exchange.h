// The end of a step: how the gradients of all ranks become their next weights. Each exchange is one
// file and one row of the table in exchange.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "train/recipe.h"

namespace kiln {

class StepContext;
struct TrainState;

struct ExchangePlan {
  std::string name = "all-reduce";  // a row of the table
  int num_servers = 0;              // the last ranks; the others train
  OptimizerPlan optimizer = {};     // as in the state
};

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
  virtual void begin() = 0;
  // Call after it. Afterwards the model has the weights for the next step. Reports the phases from
  // kCommunication on to `context`. Every rank calls it once per step, even if its batch was empty.
  virtual void finish(const StepUpdate& update, StepContext& context) = 0;
  // Call between two steps: gives every rank the same weights and optimizer state. A collective.
  virtual void join() = 0;
  // Human-readable lines on how the parameters are divided among ranks; empty if they are not.
  virtual std::vector<std::string> spread() const { return {}; }
};

// The table's first row and the default of TrainState. `state` must outlive it.
std::unique_ptr<Exchange> make_all_reduce(TrainState& state);

// Throws InternalError for a name that no row has. A collective, called after the state has been
// restored. All arguments but the plan must outlive the exchange.
std::unique_ptr<Exchange> make_exchange(const ExchangePlan& plan, TrainState& state, World& world,
                                        Communicator& communicator);

}  // namespace kiln
