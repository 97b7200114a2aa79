// The end of a step: how the gradients of all ranks become their next weights. Each exchange is a
// row of the catalogue.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
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

// Of the parameter server: which server holds which parameters, and how stale a gradient is.

// Divides tensors among servers evenly by bytes: assigns whole tensors, largest first, each to the
// server with the fewest bytes so far. Returns the ascending tensor indices of each server. If
// there are more servers than tensors, the last ones get none.
inline std::vector<std::vector<std::size_t>> spread_evenly(const std::vector<std::size_t>& bytes,
                                                           int num_servers) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return bytes[i]; });
  std::vector<std::vector<std::size_t>> shares(static_cast<std::size_t>(num_servers));
  std::vector<std::size_t> held(shares.size());
  for (const std::size_t tensor : order) {
    const auto lightest = std::min_element(held.begin(), held.end());
    *lightest += bytes[tensor];
    shares[static_cast<std::size_t>(lightest - held.begin())].push_back(tensor);
  }
  for (std::vector<std::size_t>& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

// Tracks the staleness of a server's workers. The staleness of a gradient is the number of updates
// made by other workers since its worker got the weights it was computed from.
class ServerClock {
 public:
  explicit ServerClock(int num_workers) : at_pull_(static_cast<std::size_t>(num_workers)) {}

  std::int64_t staleness(int worker) const { return updates_ - at_pull_.at(index(worker)); }
  // The learning rate for the worker's gradient: divided by its staleness, unless that is 0. Zhang,
  // Gupta, Lian and Liu, "Staleness-aware Async-SGD for Distributed Deep Learning", 2016.
  double rate(double learning_rate, int worker) const {
    return learning_rate / static_cast<double>(std::max<std::int64_t>(1, staleness(worker)));
  }

  void add_update() { ++updates_; }
  void add_pull(int worker) { at_pull_.at(index(worker)) = updates_; }
  // All workers now have the current weights.
  void add_join() { std::fill(at_pull_.begin(), at_pull_.end(), updates_); }

 private:
  static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }

  std::int64_t updates_ = 0;
  std::vector<std::int64_t> at_pull_;  // the value of `updates_` at the last pull of each worker
};

}  // namespace kiln
