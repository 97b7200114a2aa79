// What ranks tell each other of their images. Collectives: every rank calls them in the same order.
#pragma once

#include <vector>

#include "config/run_config.h"
#include "data/loader/batch_loader.h"
#include "inputs/training_inputs.h"
#include "parallel/ranks/world.h"

namespace kiln {

// The set of rank 0, from the same path everywhere. Throws Error kInvalidDataset where a rank
// cannot open its archives.
void share_dataset(World& world, Dataset& set);

// Rank 0 has scanned the datasets: broadcasts them. With --scan each, all ranks have: classes and
// lists are compared, and Error kInvalidDataset names the ranks and differences. With --shard-by
// none or train, each rank has its own shard: classes are merged.
void share_datasets(World& world, const DataConfig& config, TrainingInputs& inputs);

// Determines which images belong to this rank, and the number of steps per epoch, which is the same
// everywhere. With --shard-by none or train, ranks of one host that were given the same folder
// divide it.
void divide_images(World& world, const TrainConfig& config, TrainingInputs& inputs);

// New image faults of all ranks, in rank order.
std::vector<BadImage> share_faults(World& world, const std::vector<BadImage>& mine);

// How many validation images have the bytes of a training image, of those that the ranks have read.
// Exchanges 8 bytes per validation image, twice.
long long count_valid_in_train(World& world, const SampleTable& train, const SampleTable& valid);

}  // namespace kiln
