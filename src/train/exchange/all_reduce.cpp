// Sums the gradients over all ranks while the backward pass is still running (GradientBuckets).
// Every rank then makes the same update.
#include "train/exchange/exchange.h"
#include "train/optimizer/gradient_scaling.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {
namespace {

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
    if (state_.averages) state_.averages->note_step();
  }

  TrainState& state_;
};

}  // namespace

std::unique_ptr<Exchange> make_all_reduce(TrainState& state) {
  return std::make_unique<AllReduce>(state);
}

}  // namespace kiln
