// Counts of images by class: of a validation pass, what recall and precision are made of; and of a
// dataset.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/training_record.h"
#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/sampler.h"
#include "parallel/ranks/world.h"
#include "train/evaluation.h"

namespace kiln {

// Three counts for each class, one class after the other: its images, how often it was predicted,
// and how often that was right. [3 * num_classes].
std::vector<double> class_counts(const std::vector<Prediction>& predictions,
                                 std::size_t num_classes);

// `counts` are those of class_counts(), summed over all ranks.
MacroScores macro_scores(std::span<const double> counts);

// The images of a dataset by class, and what they weigh.

// Over all shards. `shard`: where ranks have different images, this rank's part of those it shares;
// else nullptr. A collective if it is given.
std::vector<long long> counts_of_all(World& world, const Dataset& set, std::size_t num_classes,
                                     const Shard* shard);

// The weight of an image of each class; over all images their mean is 1. Balanced: N / (C * n) for
// a class of n of the N images, where C classes have any. Square root: in proportion to the root of
// that. A class without images has the weight 1. Empty for kNone.
std::vector<double> weights_of_classes(ClassWeights choice, const std::vector<long long>& counts);

}  // namespace kiln
