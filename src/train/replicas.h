// Keeps the ranks' replicas of a model identical: a broadcast at the start, averaged statistics
// before evaluation, and an equality check. Collectives: all ranks call them at the same point;
// no-ops for a single rank.
#pragma once

#include <vector>

#include "model/image_model.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Rank 0's values of these tensors on every rank.
void broadcast_tensors(const std::vector<NamedTensor>& tensors, Communicator& communicator);

// The mean over ranks of BatchNorm's running statistics, on every rank, and the largest of the
// ranks' counts of batches: a rank that passed over a batch has counted fewer. Only the first
// `num_workers` ranks have statistics, where not all of them train.
void average_statistics(ImageModel& model, Communicator& communicator, World& world,
                        int num_workers);
// The same for tensors that are named as in a model's state().
void average_statistics(const std::vector<NamedTensor>& state, Communicator& communicator,
                        World& world, int num_workers);

// Throws Error kFailedToCompleteOperation on all ranks, naming the first tensor that differs and
// where, unless parameters and buffers are equal bit by bit.
void require_equal_replicas(const ImageModel& model, World& world);

}  // namespace kiln
