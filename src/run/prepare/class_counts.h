// Counts of images by class: for a validation pass, from which recall and precision are computed,
// and for a dataset.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/sampler.h"
#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "train/evaluation.h"

namespace kiln {

// Three counts per class, [3 * num_classes], one class after the other: its images, how often it
// was predicted, and how often that was right.
std::vector<double> class_counts(const std::vector<Prediction>& predictions,
                                 std::size_t num_classes);

// `counts`: from class_counts(), summed over all ranks.
MacroScores macro_scores(std::span<const double> counts);

// The number of images in each class of a dataset, and their weights.

// Counts over all shards. `shard`: if ranks have different images, this rank's part of the images
// that it shares with others; otherwise nullptr. A collective if `shard` is given.
std::vector<long long> counts_of_all(World& world, const Dataset& set, std::size_t num_classes,
                                     const Shard* shard);

// The weight of an image of each class; the mean over all images is 1. Balanced: N / (C * n) for a
// class of n of the N images, where C is the number of classes that have images. Square root:
// proportional to the square root of that. A class without images has weight 1. Empty for kNone.
std::vector<double> weights_of_classes(ClassWeights choice, const std::vector<long long>& counts);

}  // namespace kiln
