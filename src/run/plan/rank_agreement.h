// What the ranks of a job compare and exchange before training, and of their images during it.
// Collectives, unless noted: every rank calls them in the same order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/run_config.h"
#include "data/loader/batch_loader.h"
#include "inputs/training_inputs.h"
#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "train/precision.h"

namespace kiln {

// Rejects ranks with different versions, options or kinds of device, more ranks than GPUs, and two
// ranks on one GPU. Throws Error kUserError on rank 0 naming all ranks and differences.
void require_one_job(World& world, const OptionTexts& options, const Device& device);

// Ranks whose units differ take what all of them can do. Throws as choose_precision().
PrecisionChoice agreed_precision(World& world, std::optional<Precision> asked,
                                 const Device& device);

// What --exchange asks of ranks and devices, no collective. Throws Error kUserError.
void check_exchange(const World& world, const ExchangeConfig& config, const Device& device);

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

// Reduces gradients on this device; a local communicator for one rank. `world` and `log` must
// outlive it.
std::unique_ptr<Communicator> join_communicator(World& world, const RanksConfig& config,
                                                const std::string& log_path, const Device& device,
                                                Log& log);

// "2 of the 4 GPUs of host node7 are idle", one sentence per affected host; on rank 0.
std::vector<std::string> idle_gpus(World& world, const Device& device);

// "2 on hosts a, b".
std::string describe_ranks(const World& world);

}  // namespace kiln
