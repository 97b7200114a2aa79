// What the ranks compare and agree on before training (failures: World::agree()). Unless noted,
// these are collectives, which all ranks call in the same order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/run_config.h"
#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "train/precision.h"

namespace kiln {

// Compares the values of all ranks: where one's is not that of the first rank of its part, throws
// the Error that `difference` makes of these two ranks. `parts`: the part of each rank; empty: all
// are one. Where `all` is empty, as after gather_on_rank_0(), nothing is compared.
template <typename Value>
void require_same(World& world, const std::vector<Value>& all, const auto& difference,
                  const std::vector<std::string>& parts = {}) {
  world.agree([&] {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      const auto part = parts.empty() ? parts.begin() : std::ranges::find(parts, parts[rank]);
      const auto first = static_cast<std::size_t>(part - parts.begin());
      if (all[rank] != all[first]) throw difference(rank, first);
    }
  });
}

// Rejects ranks with different versions, options or kinds of device, more ranks than GPUs, and two
// ranks on one GPU. Throws Error kUserError on rank 0, naming all ranks and differences.
void require_one_job(World& world, const Settings& settings, const Device& device);

// `place`: the option and path of the model that every rank has read; `print`: its fingerprint.
// Throws Error kInvalidModelDirectory on rank 0 if another rank has another one.
void require_one_model(World& world, const std::string& place, const std::string& print);

// If ranks have different hardware, chooses a precision that all of them support. Throws as
// choose_precision().
PrecisionChoice agreed_precision(World& world, std::optional<Precision> asked, const Device& device,
                                 int side);

// The communicator that sums gradients on this device; a local communicator for a single rank.
// `world` and `log` must outlive it.
std::unique_ptr<Communicator> join_communicator(World& world, const RanksConfig& config,
                                                const std::string& log_path, const Device& device,
                                                Log& log);

// "2 of the 4 GPUs of host node7 are idle", one sentence per affected host; on rank 0.
std::vector<std::string> idle_gpus(World& world, const Device& device);

// "2 on hosts a, b".
std::string describe_ranks(const World& world);

}  // namespace kiln
