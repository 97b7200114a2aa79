#include "train/step.h"

#include <ATen/TensorOperators.h>

#include "train/precision.h"

namespace kiln {

// The order below is the whole algorithm: the backward pass of the mean loss over all images of the
// step (all ranks and batches), then the exchange: all-reduce of the gradients and optimizer step.
bool TrainStep::run(StepContext& context, double learning_rate) {
  const int num_ranks = state_.gradients.num_ranks();
  const auto num_images = static_cast<double>(plan_.images() * num_ranks);
  bool has_trained = num_ranks > 1;  // another rank may have trained
  for (int i = 1; i <= plan_.batches_per_step; ++i) {
    const std::optional<DeviceBatch> batch = context.next();
    // Never happens in the middle of a step, which would leave its gradients behind: datasets and
    // streams end after a whole step (training_indices(), StreamLoader).
    if (!batch) return false;
    // From here on, each bucket is sent as soon as it is complete. If this batch is skipped, there
    // is no backward pass, and finish() sends the gradients accumulated so far.
    if (i == plan_.batches_per_step) state_.exchange->begin();
    if (batch->labels.size(0) < plan_.smallest_batch && !plan_.train_on_empty_batches) continue;
    const at::Tensor logits = forward(*state_.model, batch->images, plan_.precision);
    const at::Tensor loss = loss_(logits, {batch->labels, batch->weights},
                                  {batch->other_labels, batch->other_weights}, batch->shares) /
                            num_images;
    context.enter(StepPhase::kBackward);
    (state_.scaler ? state_.scaler->scaled(loss) : loss).backward();
    state_.epoch.metrics.add(logits, batch->labels,
                             reported_loss(logits, batch->labels, *plan_.task),
                             state_.epoch.steps + 1, *plan_.task);
    has_trained = true;
  }
  state_.exchange->finish({learning_rate, plan_.clip_norm, has_trained}, context);
  state_.gradients.clear();
  ++state_.epoch.steps;
  context.enter(StepPhase::kDone);
  return true;
}

}  // namespace kiln
