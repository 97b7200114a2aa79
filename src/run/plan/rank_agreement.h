// What the ranks of a job compare and agree on before training.
// Collectives, unless noted: every rank calls them in the same order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/run_config.h"
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
