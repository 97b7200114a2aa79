// What the ranks of a job compare and share before they train. Collectives: all ranks call these in
// this order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/run_config.h"
#include "data/loader/batch_loader.h"
#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "run/training_inputs.h"

namespace kiln {

// Threads for this rank: the processors it may use, divided by the ranks of its host that may use
// the same ones.
int processors_of_this_rank(World& world);

// Refuses ranks of another kiln, with other options, or on other kinds of device; more ranks than
// GPUs; two ranks on one GPU. Error kUserError on rank 0 naming ranks and differences, all at once.
void require_one_job(World& world, const OptionTexts& options, const Device& device);

// Rank 0 has read the image sets: the others take them over. With --scan each all have read them:
// classes and lists are compared, Error kInvalidDataset naming the ranks and what differs. With
// --shard-by none or train each has its own part: classes are joined.
void share_datasets(World& world, const DataConfig& config, TrainingInputs& inputs);

// Fills in which images are this rank's and how many steps an epoch has, the same everywhere. With
// --shard-by none or train the ranks that were given the same folder on one host divide it.
void divide_images(World& world, const TrainConfig& config, TrainingInputs& inputs);

// New faults of all ranks' images, in the order of the ranks.
std::vector<BadImage> share_faults(World& world, const std::vector<BadImage>& mine);

// For the gradients of this device; a local one for one rank. `world` and `log` must outlive it.
std::unique_ptr<Communicator> join_communicator(World& world, const RanksConfig& config,
                                                const std::string& log_path, const Device& device,
                                                Log& log);

// "2 of the 4 GPUs of host node7 stay idle", one a host where it is so; on rank 0.
std::vector<std::string> idle_gpus(World& world, const Device& device);

// "2 on hosts a, b".
std::string describe_ranks(const World& world);

}  // namespace kiln
