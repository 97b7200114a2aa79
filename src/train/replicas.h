// Keeps the ranks' replicas of a model identical: a broadcast at the start, averaged statistics
// before evaluation, and an equality check. Collectives: all ranks call them at the same point;
// no-ops for a single rank.
#pragma once

#include <vector>

#include "model/image_model.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Copies rank 0's values of these tensors to every rank.
void broadcast_tensors(const std::vector<NamedTensor>& tensors, Communicator& communicator);

// Sets BatchNorm's running statistics on every rank to their mean over the ranks, and its batch
// counts to their maximum, since a rank that skipped a batch has counted fewer. Only the first
// `num_training_ranks` ranks train and have statistics.
void average_statistics(ImageModel& model, Communicator& communicator, World& world,
                        int num_training_ranks);
// The same for tensors named as in a model's state().
void average_statistics(const std::vector<NamedTensor>& state, Communicator& communicator,
                        World& world, int num_training_ranks);

// Throws Error kFailedToCompleteOperation on all ranks, naming the first tensor that differs and on
// which ranks, unless all parameters and buffers are bitwise equal.
void require_equal_replicas(const ImageModel& model, World& world);

}  // namespace kiln
