// How the gradients of all ranks become their next weights: the end of a step. An exchange is one
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
  OptimizerPlan optimizer = {};     // that of the state
};

// What a step asks of the exchange that ends it.
struct StepUpdate {
  double learning_rate = 0;
  double clip_norm = 0;      // 0: gradients stay as they are
  bool has_trained = false;  // this rank on any image or, where gradients are summed, maybe others
};

// One thread.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // The next backward is the step's last.
  virtual void begin() = 0;
  // After it: the model has the weights that the next step begins with. Tells `context` the phases
  // from kCommunication on. Every rank calls it once per step, even if its batch was empty.
  virtual void finish(const StepUpdate& update, StepContext& context) = 0;
  // A collective, between two steps: every rank has the same weights, and the optimizer's state.
  virtual void join() = 0;
  // Between which ranks the parameters are divided, in lines for people; empty: they are not.
  virtual std::vector<std::string> spread() const { return {}; }
};

// The first row, which TrainState has unless it is given another. `state` must outlive it.
std::unique_ptr<Exchange> make_all_reduce(TrainState& state);

// Throws InternalError for a name that no row has. A collective; the state is as restored, and all
// arguments but the plan must outlive the exchange.
std::unique_ptr<Exchange> make_exchange(const ExchangePlan& plan, TrainState& state, World& world,
                                        Communicator& communicator);

}  // namespace kiln
