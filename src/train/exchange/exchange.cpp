#include "train/exchange/exchange.h"

#include "base/error.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {

std::unique_ptr<Exchange> make_parameter_server(int num_servers, const OptimizerPlan& optimizer,
                                                TrainState& state, World& world,
                                                Communicator& communicator);

namespace {

// Sums the gradients over all ranks while the backward pass is still running (GradientBuckets).
// Every rank then makes the same update.
class AllReduce : public Exchange {
 public:
  explicit AllReduce(TrainState& state) : state_(state) {}

  void begin() override { state_.gradients.reduce_on_next_backward(); }

  void finish(const StepUpdate& update, StepContext& context) override {
    context.enter(StepPhase::kCommunication);
    state_.gradients.wait();
    context.enter(StepPhase::kOptimizer);
    if (update.has_trained) step(update);
  }

 private:
  // Checks for float16 overflow before clipping, which would spread it to all gradients.
  void step(const StepUpdate& update) {
    std::optional<at::Tensor> skip;
    if (state_.scaler) skip = state_.scaler->unscale(state_.gradients.flat());
    if (update.clip_norm > 0) clip_norm(state_.gradients.flat(), update.clip_norm);
    state_.optimizer->step(update.learning_rate, skip);
    if (state_.averages) state_.averages->count_step();
  }

  TrainState& state_;
};

}  // namespace

std::unique_ptr<Exchange> make_all_reduce(TrainState& state) {
  return std::make_unique<AllReduce>(state);
}

void check_exchange(const ExchangePlan& plan, int num_ranks, const Device& device) {
  if (device.is_cuda && !plan.kind->works_on_gpus)
    throw Error(ErrorCode::kUserError, "--exchange " + std::string(plan.kind->name) +
                                           " works over MPI on CPUs, but the device is " +
                                           device.description +
                                           ": add --device cpu, or use --exchange all-reduce.");
  plan.require_ranks(num_ranks);
}

std::unique_ptr<Exchange> make_exchange(const ExchangePlan& plan, const OptimizerPlan& optimizer,
                                        TrainState& state, World& world,
                                        Communicator& communicator) {
  if (plan.num_servers == 0) return make_all_reduce(state);
  return make_parameter_server(plan.num_servers, optimizer, state, world, communicator);
}

}  // namespace kiln
