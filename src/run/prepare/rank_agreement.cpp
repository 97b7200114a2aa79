#include "run/prepare/rank_agreement.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/platform/installation.h"
#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "cli/options.h"
#include "parallel/gradients/nccl.h"
#include "parallel/ranks/peer_status.h"
#include "report/error_info.h"
#include "run/process/process.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxNamed = 8;  // of ranks that differ

// Facts that must be equal on all ranks: a name, its value, the next name...
using Facts = std::vector<std::string>;

Facts facts_of(const Settings& settings) {
  // Unless --shard-by is rank, hosts may have different data paths.
  const bool has_shards = settings.text(options::kShardBy) != "rank";
  Facts facts = {"version", std::string(program_version())};
  for (const Setting& setting : settings) {
    const Option& option = *setting.option;
    const bool may_differ =
        option.may_differ || (has_shards && option.name.ends_with("-data-path"));
    // Collectives depend on whether it is given.
    const char* const given = setting.text.empty() ? "not given" : "given";
    facts.insert(facts.end(), {"--" + option.name, may_differ ? given : setting.text});
  }
  return facts;
}

// "--epochs is '3' there and '5' on rank 0", for each difference.
std::string differences(const Facts& theirs, const Facts& of_rank_0) {
  std::string text;
  for (std::size_t i = 1; i < std::min(theirs.size(), of_rank_0.size()); i += 2)
    if (theirs[i] != of_rank_0[i])
      text += (text.empty() ? "" : ", ") + theirs[i - 1] + " is '" + theirs[i] + "' there and '" +
              of_rank_0[i] + "' on rank 0";
  return text.empty() ? "it has different options" : text;
}

// On rank 0.
std::vector<RankDevice> gather_devices(World& world, const Device& device) {
  const auto own_rank = static_cast<std::size_t>(world.rank());
  return world.gather_on_rank_0(
      RankDevice{world.hosts()[own_rank], device.is_cuda, device.uuid, device.visible_uuids});
}

// Watches collectives on the GPUs by the status that ranks exchange over MPI: it explains why one
// is waiting, and ends the wait if a rank has failed.
NcclWatch watch_over_mpi(World& world, const RanksConfig& config, const std::string& log_path,
                         Log& log) {
  MpiThread& mpi = *world.mpi();
  const StallWatch new_stall(
      {static_cast<double>(config.collective_timeout_s), config.stall_warning_s()},
      [&log](const std::string& text) { log.warning(text); });
  NcclWatch watch;
  watch.started = [&mpi] { return mpi.count_elsewhere(); };
  watch.waiting = [&world, &mpi, stall = new_stall, last = std::uint64_t{0}](
                      const std::string& collective, std::uint64_t place, double waited) mutable {
    mpi.throw_if_failed();
    if (std::exchange(last, place) != place) stall.begin();
    if (stall.asks(waited)) mpi.query_peers();
    if (stall.judges(waited))
      stall.judge(collective, waited, {mpi.query_peers(), world.hosts(), world.rank(), place},
                  mpi.phase());
  };
  watch.stuck = [&world, &log, path = error_info_path(log_path)](const auto& failure) {
    world.mpi()->abort(report_exception(failure, path, world, log));
  };
  return watch;
}

}  // namespace

std::vector<std::string> idle_gpus(World& world, const Device& device) {
  const std::vector<RankDevice> devices = gather_devices(world, device);
  return world.leads() ? find_idle_gpus(devices) : std::vector<std::string>{};
}

void require_one_job(World& world, const Settings& settings, const Device& device) {
  if (world.size() == 1) return;
  const std::vector<Facts> facts = world.gather_on_rank_0(facts_of(settings));
  const std::vector<RankDevice> devices = gather_devices(world, device);
  world.agree([&] {
    if (!world.leads()) return;
    Problems problems;
    for (int rank = 1; rank < world.size() && problems.errors().size() < kMaxNamed; ++rank)
      if (facts[rank] != facts.front())
        problems.add(Error(ErrorCode::kUserError,
                           "Ranks were started with different options: " + world.name_of(rank) +
                               ": " + differences(facts[rank], facts.front()) +
                               ". Start all ranks with one command."));
    problems.collect([&] { find_gpu_problems(devices, ranks_may_share_gpus()).throw_if_any(); });
    problems.throw_if_any();
  });
}

void require_one_model(World& world, const std::string& place, const std::string& print) {
  const std::vector<std::string> prints = world.gather(print);
  require_same(world, prints, [&](std::size_t rank, std::size_t first) {
    return Error(ErrorCode::kInvalidModelDirectory,
                 "Ranks found different models in " + place + ": " +
                     world.name_of(static_cast<int>(rank)) + " found " + prints[rank] +
                     ", rank 0 found " + prints[first] + ". Give every rank the same model.");
  });
}

PrecisionChoice agreed_precision(World& world, std::optional<Precision> asked, const Device& device,
                                 int side) {
  PrecisionChoice choice;
  world.agree([&] { choice = choose_precision(asked, units_of(device), side); });
  const std::vector<Precision> all = world.gather(choice.precision);
  const Precision least = *std::min_element(all.begin(), all.end());
  if (least != choice.precision) choice = {least, "auto: the best that all ranks support"};
  return choice;
}

std::unique_ptr<Communicator> join_communicator(World& world, const RanksConfig& config,
                                                const std::string& log_path, const Device& device,
                                                Log& log) {
  if (world.size() == 1) return make_local_communicator();
  if (!device.is_cuda) return make_mpi_communicator(*world.mpi());
  const std::string warning = shared_memory_warning(world.local_size());
  if (!warning.empty() && world.local_rank() == 0) log.warning(warning);
  const auto nccl_log = send_nccl_log_to(log_path, world.rank());
  if (config.sync_batch_norm) keep_nccl_lanes_in_order();
  // NCCL refuses two slices of one GPU, too: it knows them by the GPU's PCI address.
  if (ranks_may_share_gpus() || device.uuid.starts_with("MIG-"))
    keep_nccl_ranks_apart(world.rank());
  NcclPlan plan;
  plan.size = world.size();
  plan.deadline_s = config.collective_timeout_s;
  plan.watch = watch_over_mpi(world, config, log_path, log);
  plan.join_group = [&world, gpu = device.index] {
    return join_nccl_group(
        {world.rank(), world.size(), gpu, world.from_leader([] { return make_nccl_id(); })});
  };
  std::unique_ptr<Communicator> communicator = make_nccl_communicator(plan);
  const std::string network = nccl_log ? network_in_nccl_log(*nccl_log) : "";
  if (!network.empty())
    log.info("network:          " + network + " (NCCL between hosts; details in " +
             nccl_log->string() + ")");
  return communicator;
}

std::string describe_ranks(const World& world) {
  std::vector<std::string> names = world.hosts();
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const char* on = names.size() == 1 ? " on host " : " on hosts ";
  const std::size_t more = names.size() > 2 * kMaxNamed ? names.size() - kMaxNamed : 0;
  names.resize(names.size() - more);
  return std::to_string(world.size()) + on + joined(names, ", ") +
         (more > 0 ? formatted(" and %zu more", more) : "");
}

}  // namespace kiln
