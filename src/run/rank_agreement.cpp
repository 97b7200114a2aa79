#include "run/rank_agreement.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/machine.h"
#include "base/text.h"
#include "data/dataset_text.h"
#include "data/image_set_bytes.h"
#include "parallel/gpu_assignment.h"
#include "parallel/nccl.h"
#include "parallel/shared_memory.h"
#include "parallel/stall_watch.h"
#include "report/error_info.h"
#include "run/process.h"
#include "run/versions.h"

namespace kiln {
namespace {

// Options that may differ from rank to rank.
const std::set<std::string>& own_options() {
  static const std::set<std::string> kNames = {"log-path", "threads", "loader-threads", "config",
                                               "index"};
  return kNames;
}

// A line a fact: what must be the same everywhere.
std::string facts_of(const TrainConfig& config) {
  std::string text = "version\t" + program_version() + "\n";
  for (const auto& [name, value] : config.effective_options)
    if (!own_options().contains(name) &&
        !(config.data.has_train_shard && name.ends_with("-data-path")))
      text += "--" + name + "\t" + value + "\n";
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// "--epochs: 3 against 5 of rank 0", a difference each.
std::string differences(const std::string& theirs, const std::string& of_rank_0) {
  const auto other = lines_of(theirs), first = lines_of(of_rank_0);
  std::string text;
  for (std::size_t i = 0; i < std::min(other.size(), first.size()); ++i) {
    if (other[i] == first[i]) continue;
    const std::size_t tab = other[i].find('\t');
    text += (text.empty() ? "" : ", ") + other[i].substr(0, tab) + " is '" +
            other[i].substr(tab + 1) + "' there and '" + first[i].substr(first[i].find('\t') + 1) +
            "' on rank 0";
  }
  return text.empty() ? "their option tables differ" : text;
}

Problems find_different_ranks(const World& world, const std::vector<std::string>& facts) {
  Problems problems;
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::string& theirs = facts[static_cast<std::size_t>(rank)];
    if (theirs == facts.front()) continue;
    problems.add(Error(ErrorCode::kUserError,
                       "The processes of this job were not started alike: of " +
                           world.name_of(rank) + " " + differences(theirs, facts.front()) +
                           ". Start all with one command."));
  }
  return problems;
}

// What share_image_sets compares: a line of classes and a line of files, hashed where long.
std::string fingerprint(const ImageSet& set) {
  std::string classes;
  for (const std::string& name : set.classes) classes += (classes.empty() ? "" : ", ") + name;
  std::size_t hash = 0;
  for (const ImageItem& item : set.items)
    hash = hash * 1099511628211ULL + std::hash<std::string_view>{}(item.file_name) +
           static_cast<std::size_t>(item.label);
  return "classes " + classes + "\n" + std::to_string(set.items.size()) + " images, list " +
         std::to_string(hash) + "\n";
}

void require_equal_sets(World& world, const ImageSet& set) {
  const std::vector<std::string> all = world.gather(fingerprint(set));
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::string& theirs = all[static_cast<std::size_t>(rank)];
    if (theirs == all.front()) continue;
    const auto other = lines_of(theirs), first = lines_of(all.front());
    const std::size_t line = other[0] != first[0] ? 0 : 1;
    throw Error(ErrorCode::kInvalidDataset,
                set.name + " is not the same everywhere: " + world.name_of(rank) + " found " +
                    other[line] + ", rank 0 found " + first[line] +
                    ". Give every process the same data.");
  }
}

// Class names end in a zero byte, which no name of a folder holds.
std::vector<std::string> joined_classes(World& world, const std::vector<std::string>& mine) {
  std::string text;
  for (const std::string& name : mine) text += name + '\0';
  std::set<std::string> names;
  for (const std::string& theirs : world.gather(text)) {
    for (std::size_t at = 0; at < theirs.size(); at = theirs.find('\0', at) + 1)
      names.insert(theirs.substr(at, theirs.find('\0', at) - at));
  }
  return {names.begin(), names.end()};
}

// The ranks' parts become parts of one data set.
void join_parts(World& world, TrainingInputs& inputs) {
  ImageSet all;
  all.root = inputs.train.root;
  all.classes = joined_classes(world, inputs.train.classes);
  const std::vector<std::string> pixels = world.gather(pack_pixel_choice(inputs));
  world.agree([&] {
    for (ImageSet* set : {&inputs.train, &inputs.valid}) map_classes(all, *set);
    inputs.train.schema_json = inputs.valid.schema_json = schema_text(all.classes);
    if (std::any_of(pixels.begin(), pixels.end(),
                    [&](const std::string& other) { return other != pixels.front(); })) {
      throw Error(ErrorCode::kInvalidDataset,
                  "The parts of the training dataset hold images of different sizes, so each "
                  "process would choose another. Give --image-size.");
    }
  });
}

// `all`, but among the ranks of this host that were given the same folder.
RankShare share_of_part(World& world, const ImageSet& set, RankShare all) {
  const auto rank = static_cast<std::size_t>(world.rank());
  const std::vector<std::string> parts =
      world.gather(world.hosts()[rank] + '\0' + std::filesystem::canonical(set.root).string());
  const auto mine = parts.begin() + world.rank();
  all.rank = static_cast<int>(std::count(parts.begin(), mine, *mine));
  all.num_ranks = static_cast<int>(std::count(parts.begin(), parts.end(), *mine));
  return all;
}

std::vector<RankDevice> gather_devices(World& world, const Device& device) {
  const std::vector<std::string> packed =
      world.gather(pack({"", device.is_cuda, device.uuid, device.visible_uuids}));
  std::vector<RankDevice> devices;
  for (std::size_t rank = 0; rank < packed.size(); ++rank)
    devices.push_back(unpack(packed[rank], world.hosts()[rank]));
  return devices;
}

// What the ranks tell each other over MPI explains a collective that waits on the GPUs, and ends
// its wait.
NcclWatch watch_over_mpi(World& world, const TrainConfig& config, Log& log) {
  MpiThread& mpi = *world.mpi();
  auto stall = std::make_shared<StallWatch>(
      StallWatch::Limits{static_cast<double>(config.ranks.collective_timeout_s),
                         static_cast<double>(config.ranks.stall_warning_s)},
      [&log](const std::string& text) { log.warning(text); });
  NcclWatch watch;
  watch.started = [&mpi] { return mpi.count_elsewhere(); };
  watch.waiting = [&world, &mpi, stall, last = std::uint64_t{0}](
                      const std::string& collective, std::uint64_t place, double waited) mutable {
    mpi.throw_if_failed();
    if (std::exchange(last, place) != place) stall->begin();
    if (stall->asks(waited)) mpi.ask_around();
    if (stall->judges(waited))
      stall->judge(collective, waited, {mpi.ask_around(), world.hosts(), world.rank(), place},
                   mpi.phase());
  };
  watch.stuck = [&world, &log,
                 path = error_info_path(config.output.log_path)](const auto& failure) {
    world.mpi()->abort(tell_failure(failure, path, world, log));
  };
  return watch;
}

}  // namespace

int processors_of_this_rank(World& world) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  std::string mine = world.hosts()[static_cast<std::size_t>(world.rank())] + "\t";
  mine.append(reinterpret_cast<const char*>(&mask), sizeof mask);
  const std::vector<std::string> all = world.gather(mine);
  const auto sharing = static_cast<int>(std::count(all.begin(), all.end(), mine));
  return std::max(1, usable_cpus() / sharing);
}

std::vector<std::string> idle_gpus(World& world, const Device& device) {
  const std::vector<RankDevice> devices = gather_devices(world, device);
  return world.leads() ? find_idle_gpus(devices) : std::vector<std::string>{};
}

void require_one_job(World& world, const TrainConfig& config, const Device& device) {
  if (world.size() == 1) return;
  const std::vector<std::string> facts = world.gather(facts_of(config));
  const std::vector<RankDevice> devices = gather_devices(world, device);
  world.agree([&] {
    if (!world.leads()) return;
    Problems problems = find_different_ranks(world, facts);
    problems.collect([&] { find_gpu_problems(devices).throw_if_any(); });
    problems.throw_if_any();
  });
}

void share_image_sets(World& world, const TrainConfig& config, TrainingInputs& inputs) {
  if (config.data.has_train_shard) {
    join_parts(world, inputs);
    if (!config.data.has_valid_shard) world.agree([&] { require_equal_sets(world, inputs.valid); });
    return;
  }
  if (world.size() == 1) return;
  if (config.data.scan_each) {
    world.agree([&] {
      require_equal_sets(world, inputs.train);
      require_equal_sets(world, inputs.valid);
    });
    return;
  }
  for (ImageSet* set : {&inputs.train, &inputs.valid}) {
    const std::string bytes = world.broadcast(world.leads() ? to_bytes(*set, SetParts::kList) : "");
    if (!world.leads()) *set = image_set_of(bytes, SetParts::kList);
  }
  const std::string pixels = world.broadcast(world.leads() ? pack_pixel_choice(inputs) : "");
  if (!world.leads()) take_pixel_choice(config, pixels, inputs);
  inputs.train.root = config.data.train_path;
  inputs.valid.root = config.data.valid_path;
  inputs.train.name = "Training dataset";
  inputs.valid.name = "Validation dataset";
  world.agree([&] {
    open_archives(inputs.train);
    open_archives(inputs.valid);
  });
}

void divide_images(World& world, const TrainConfig& config, TrainingInputs& inputs) {
  const RankShare all{world.rank(), world.size(), config.optimization.batch_size,
                      config.optimization.accumulate};
  inputs.train_share = config.data.has_train_shard ? share_of_part(world, inputs.train, all) : all;
  inputs.valid_share = config.data.has_valid_shard ? inputs.train_share : all;
  const auto own =
      static_cast<std::int64_t>(inputs.train.items.size()) / inputs.train_share.images_per_step();
  inputs.steps_per_epoch = own;
  for (const std::string& steps : world.gather(std::to_string(own)))
    inputs.steps_per_epoch = std::min<std::int64_t>(inputs.steps_per_epoch, std::stoll(steps));
  if (inputs.steps_per_epoch > 0) return;
  world.agree([&] {
    throw Error(ErrorCode::kInvalidDataset,
                "One part of the training dataset has fewer images than a step takes of it. Use a "
                "smaller --batch-size or --accumulate, or larger parts.");
  });
}

std::vector<BadImage> share_faults(World& world, const std::vector<BadImage>& mine) {
  if (world.size() == 1) return mine;
  std::string text;
  for (const BadImage& fault : mine)
    text += std::to_string(fault.item) + (fault.damaged ? "\tdamaged\t" : "\tbad\t") +
            printable(fault.fault) + "\n";
  std::vector<BadImage> all;
  const std::vector<std::string> texts = world.gather(text);
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const std::string& line : lines_of(texts[static_cast<std::size_t>(rank)])) {
      const std::size_t kind = line.find('\t') + 1, fault = line.find('\t', kind) + 1;
      all.push_back({static_cast<std::uint32_t>(std::stoul(line)),
                     line.substr(fault) + ", read by " + world.name_of(rank), line[kind] == 'd'});
    }
  }
  return all;
}

std::unique_ptr<Communicator> join_communicator(World& world, const TrainConfig& config,
                                                const Device& device, Log& log) {
  if (world.size() == 1) return nullptr;
  if (!device.is_cuda) return make_mpi_communicator(*world.mpi());
  const std::string warning = shared_memory_warning(world.local_size());
  if (!warning.empty() && world.local_rank() == 0) log.warning(warning);
  const auto nccl_log = send_nccl_log_to(config.output.log_path, world.rank());
  std::string id;
  world.agree([&] { id = world.leads() ? make_nccl_id() : ""; });
  NcclPlan plan;
  plan.rank = world.rank();
  plan.size = world.size();
  plan.device = device.index;
  plan.id = world.broadcast(id);
  plan.deadline_s = config.ranks.collective_timeout_s;
  plan.watch = watch_over_mpi(world, config, log);
  std::unique_ptr<Communicator> communicator = make_nccl_communicator(plan);
  const std::string network = nccl_log ? network_in_nccl_log(*nccl_log) : "";
  if (!network.empty())
    log.info("network:          " + network + " (NCCL between hosts; more in " +
             nccl_log->string() + ")");
  return communicator;
}

std::string describe_ranks(const World& world) {
  std::vector<std::string> names = world.hosts();
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text =
      std::to_string(world.size()) + (names.size() == 1 ? " on host " : " on hosts ");
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text;
}

}  // namespace kiln
