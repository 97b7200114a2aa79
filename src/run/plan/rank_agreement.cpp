#include "run/plan/rank_agreement.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/readers.h"
#include "parallel/device/device.h"
#include "parallel/gradients/nccl.h"
#include "parallel/ranks/peer_status.h"
#include "platform/launch_environment.h"
#include "process/process.h"
#include "process/versions.h"
#include "report/failure/error_info.h"
#include "run/plan/prepare.h"

namespace kiln {
namespace {

// Options that may differ from rank to rank.
const std::set<std::string>& own_options() {
  static const std::set<std::string> kNames = {"log-path", "threads", "loader-threads",
                                               "config",   "index",   "checkpoint-path"};
  return kNames;
}

// Facts that must be equal on all ranks: a name, its value, the next name...
using Facts = std::vector<std::string>;

Facts facts_of(const OptionTexts& options) {
  // With --shard-by none or train, each host has its own paths.
  const bool has_shards = std::any_of(options.begin(), options.end(), [](const auto& option) {
    return option.first == "shard-by" && option.second != "rank";
  });
  Facts facts = {"version", std::string(program_version())};
  for (const auto& [name, value] : options)
    if (!own_options().contains(name) && !(has_shards && name.ends_with("-data-path")))
      facts.insert(facts.end(), {"--" + name, value});
  return facts;
}

// "--epochs is '3' there and '5' on rank 0", for each difference.
std::string differences(const Facts& theirs, const Facts& of_rank_0) {
  std::string text;
  for (std::size_t i = 1; i < std::min(theirs.size(), of_rank_0.size()); i += 2)
    if (theirs[i] != of_rank_0[i])
      text += (text.empty() ? "" : ", ") + theirs[i - 1] + " is '" + theirs[i] + "' there and '" +
              of_rank_0[i] + "' on rank 0";
  return text.empty() ? "it has other options" : text;
}

Problems find_different_ranks(const World& world, const std::vector<Facts>& facts) {
  Problems problems;
  for (int rank = 1; rank < world.size(); ++rank) {
    const Facts& theirs = facts[static_cast<std::size_t>(rank)];
    if (theirs == facts.front()) continue;
    problems.add(Error(ErrorCode::kUserError,
                       "Ranks were started with different options: " + world.name_of(rank) + ": " +
                           differences(theirs, facts.front()) +
                           ". Start all ranks with one command."));
  }
  return problems;
}

// The files of a set and their labels.
struct Fingerprint {
  std::size_t num_images = 0, hash = 0;
  bool operator==(const Fingerprint&) const = default;
};

Fingerprint fingerprint(const Dataset& set) {
  Fingerprint print{.num_images = set.samples.size()};
  for (const Sample& sample : set.samples)
    print.hash = print.hash * 1099511628211ULL + std::hash<std::string_view>{}(sample.file_name) +
                 static_cast<std::size_t>(sample.label);
  return print;
}

std::string in_words(const Fingerprint& print) {
  return std::to_string(print.num_images) + " images, list " + std::to_string(print.hash);
}

std::string in_words(const std::vector<std::string>& classes) {
  std::string text = "classes ";
  for (const std::string& name : classes) text += (&name == &classes.front() ? "" : ", ") + name;
  return text;
}

void require_equal_sets(World& world, const Dataset& set) {
  const auto classes = world.gather(set.classes);
  const auto files = world.gather(fingerprint(set));
  for (int rank = 1; rank < world.size(); ++rank) {
    const auto other = static_cast<std::size_t>(rank);
    const bool same_classes = classes[other] == classes[0];
    if (same_classes && files[other] == files[0]) continue;
    const auto found = [&](std::size_t by) {
      return same_classes ? in_words(files[by]) : in_words(classes[by]);
    };
    throw Error(ErrorCode::kInvalidDataset, set.name +
                                                " differs between ranks: " + world.name_of(rank) +
                                                " found " + found(other) + ", rank 0 found " +
                                                found(0) + ". Give every rank the same data.");
  }
}

std::vector<std::string> joined_classes(World& world, const std::vector<std::string>& mine) {
  std::set<std::string> names;
  for (const auto& theirs : world.gather(mine)) names.insert(theirs.begin(), theirs.end());
  return {names.begin(), names.end()};
}

// The ranks' shards become parts of one dataset.
void join_parts(World& world, TrainingInputs& inputs) {
  Dataset all;
  all.root = inputs.train.root;
  all.classes = joined_classes(world, inputs.train.classes);
  const std::vector<TransformChoice> pixels = world.gather(transform_choice(inputs));
  world.agree([&] {
    for (Dataset* set : {&inputs.train, &inputs.valid}) map_classes(all, *set);
    inputs.train.schema_json = inputs.valid.schema_json = schema_text(all.classes);
    if (std::any_of(pixels.begin(), pixels.end(),
                    [&](const TransformChoice& other) { return other != pixels.front(); })) {
      throw Error(ErrorCode::kInvalidDataset,
                  "The shards of the training dataset have images of different sizes, so the ranks "
                  "would choose different image sizes. Set --image-size.");
    }
  });
}

void require_own_stream(const Dataset& set, int num_readers) {
  if (num_readers == 1) return;
  throw Error(ErrorCode::kParameterParsing,
              formatted("%d ranks of a host would read the stream '%s', and what one has read is "
                        "gone for the others. Give each a stream of its own: --channel-per-rank "
                        "with '%s_0', '%s_1' and so on; or use one rank on each host.",
                        num_readers, set.root.c_str(), set.root.c_str(), set.root.c_str()));
}

// `all`, restricted to the ranks of this host that were given the same folder.
Shard shard_of_part(World& world, const Dataset& set, Shard all) {
  const std::string& host = world.hosts()[static_cast<std::size_t>(world.rank())];
  const std::string place =
      set.is_stream() ? set.root.string() : std::filesystem::canonical(set.root).string();
  const auto parts = world.gather(std::vector{host, place});
  const auto mine = parts.begin() + world.rank();
  all.rank = static_cast<int>(std::count(parts.begin(), mine, *mine));
  all.num_ranks = static_cast<int>(std::count(parts.begin(), parts.end(), *mine));
  if (set.is_stream()) world.agree([&] { require_own_stream(set, all.num_ranks); });
  return all;
}

std::vector<RankDevice> gather_devices(World& world, const Device& device) {
  const std::vector<int> on_gpu = world.gather(device.is_cuda ? 1 : 0);
  const std::vector<std::string> chosen = world.gather(device.uuid);
  const std::vector<std::vector<std::string>> visible = world.gather(device.visible_uuids);
  std::vector<RankDevice> devices;
  for (std::size_t rank = 0; rank < on_gpu.size(); ++rank)
    devices.push_back({world.hosts()[rank], on_gpu[rank] != 0, chosen[rank], visible[rank]});
  return devices;
}

// The status that ranks exchange over MPI explains why a collective is waiting on the GPUs, and
// ends the wait.
NcclWatch watch_over_mpi(World& world, const RanksConfig& config, const std::string& log_path,
                         Log& log) {
  MpiThread& mpi = *world.mpi();
  const StallWatch new_stall({static_cast<double>(config.collective_timeout_s),
                              static_cast<double>(config.stall_warning_s)},
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
    world.mpi()->abort(tell_failure(failure, path, world, log));
  };
  return watch;
}

// The images of rank 0's set, without its root and name. Those that have come are kept.
void take_list_of_leader(World& world, Dataset& set) {
  const std::string bytes = world.broadcast(world.leads() ? to_bytes(set, SetParts::kList) : "");
  if (world.leads()) return;
  Dataset taken = dataset_of(bytes, SetParts::kList);
  if (set.is_kept_stream()) taken.archives = std::move(set.archives);
  taken.memory_bytes = set.memory_bytes;
  set = std::move(taken);
}

// Ranks that have read the transformation must have found the same; the others take rank 0's.
void share_transformation(World& world, const DataConfig& config, TrainingInputs& inputs) {
  if (config.transform_path.empty() || world.size() == 1) return;
  const std::string mine = inputs.transform ? inputs.transform->to_json() : "";
  const std::string of_leader = world.broadcast(mine);
  world.agree([&] {
    Problems problems;
    TransformChain chain = TransformChain::parse(of_leader, config.transform_path, problems);
    problems.throw_if_any();
    if (inputs.transform && mine != of_leader)
      throw Error(ErrorCode::kInvalidTransformationDirectory,
                  "--transform-path differs between ranks: " + world.name_of(world.rank()) +
                      " found " + inputs.transform->summary() + ", rank 0 found " +
                      chain.summary() + ". Give every rank the same.");
    inputs.transform = std::move(chain);
  });
}

}  // namespace

std::vector<std::string> idle_gpus(World& world, const Device& device) {
  const std::vector<RankDevice> devices = gather_devices(world, device);
  return world.leads() ? find_idle_gpus(devices) : std::vector<std::string>{};
}

void require_one_job(World& world, const OptionTexts& options, const Device& device) {
  if (world.size() == 1) return;
  const std::vector<Facts> facts = world.gather(facts_of(options));
  const std::vector<RankDevice> devices = gather_devices(world, device);
  world.agree([&] {
    if (!world.leads()) return;
    Problems problems = find_different_ranks(world, facts);
    problems.collect([&] { find_gpu_problems(devices, ranks_may_share_gpus()).throw_if_any(); });
    problems.throw_if_any();
  });
}

void check_exchange(const World& world, const ExchangeConfig& config, const Device& device) {
  if (!config.has_servers()) return;
  if (device.is_cuda)
    throw Error(ErrorCode::kUserError,
                "--exchange parameter-server works over MPI on CPUs, but the device is " +
                    device.description + ": add --device cpu, or use --exchange all-reduce.");
  if (config.num_workers(world.size()) >= 1) return;
  throw Error(ErrorCode::kUserError,
              formatted("--exchange parameter-server with --servers %d needs %d ranks or more, one "
                        "of them a worker, but this job has %d: use more --ranks, or --exchange "
                        "all-reduce.",
                        config.num_servers, config.num_servers + 1, world.size()));
}

PrecisionChoice agreed_precision(World& world, std::optional<Precision> asked,
                                 const Device& device) {
  PrecisionChoice choice;
  world.agree([&] { choice = choose_precision(asked, units_of(device)); });
  const std::vector<Precision> all = world.gather(choice.precision);
  const Precision least = *std::min_element(all.begin(), all.end());
  if (least != choice.precision) choice = {least, "auto: the best that all ranks support"};
  return choice;
}

void share_dataset(World& world, Dataset& set) {
  if (world.size() == 1) return;
  take_list_of_leader(world, set);
  set.root = world.broadcast(set.root.string());
  set.name = world.broadcast(set.name);
  world.agree([&] { open_archives(set); });
}

void share_datasets(World& world, const DataConfig& config, TrainingInputs& inputs) {
  share_transformation(world, config, inputs);
  if (config.has_train_shard && inputs.train.is_stream()) {
    // The numbers of classes that come in streams are those of all ranks.
    world.agree([&] { require_equal_sets(world, inputs.train); });
    if (!config.has_valid_shard) world.agree([&] { require_equal_sets(world, inputs.valid); });
    return;
  }
  if (config.has_train_shard) {
    join_parts(world, inputs);
    if (!config.has_valid_shard) world.agree([&] { require_equal_sets(world, inputs.valid); });
    return;
  }
  if (world.size() == 1) return;
  if (config.scan_each) {
    world.agree([&] {
      require_equal_sets(world, inputs.train);
      require_equal_sets(world, inputs.valid);
    });
    return;
  }
  take_list_of_leader(world, inputs.train);
  take_list_of_leader(world, inputs.valid);
  const TransformChoice pixels = world.broadcast(transform_choice(inputs));
  if (!world.leads()) take_transform_choice(config, pixels, inputs);
  inputs.train.root = config.train_path;
  inputs.valid.root = config.valid_path;
  inputs.train.name = "Training dataset";
  inputs.valid.name = "Validation dataset";
  world.agree([&] {
    open_archives(inputs.train);
    if (inputs.is_split) share_archives(inputs.train, inputs.valid);
    open_archives(inputs.valid);
  });
}

void divide_images(World& world, const TrainConfig& config, TrainingInputs& inputs) {
  const Shard all{world.rank(), world.size(), config.optimization.batch_size,
                  config.optimization.accumulate};
  inputs.train_shard = config.data.has_train_shard ? shard_of_part(world, inputs.train, all) : all;
  if (config.ranks.exchange.has_servers())
    inputs.train_shard.num_ranks = config.ranks.exchange.num_workers(world.size());
  inputs.valid_shard = config.data.has_valid_shard ? inputs.train_shard : all;
  Dataset& train = inputs.train;
  if (config.data.stream.by_record) {
    inputs.keep_one_of = world.size();
    inputs.keep_which = world.rank();
  }
  if (train.is_stream())
    train.num_streamed = config.data.stream.steps_per_epoch * inputs.train_shard.images_per_step();
  const std::int64_t own = train.num_images() / inputs.train_shard.images_per_step();
  const std::vector<std::int64_t> steps = world.gather(own);
  inputs.steps_per_epoch = *std::min_element(steps.begin(), steps.end());
  if (inputs.steps_per_epoch > 0) return;
  world.agree([&] {
    throw Error(ErrorCode::kInvalidDataset,
                "A shard of the training dataset has fewer images than one step needs. Use a "
                "smaller --batch-size or --accumulate, or larger shards.");
  });
}

std::vector<BadImage> share_faults(World& world, const std::vector<BadImage>& mine) {
  if (world.size() == 1) return mine;
  struct Place {
    std::uint32_t sample;
    bool damaged;
  };
  std::vector<Place> places;
  std::vector<std::string> texts;
  for (const BadImage& fault : mine) {
    places.push_back({fault.sample, fault.damaged});
    texts.push_back(printable(fault.fault));
  }
  const auto all_places = world.gather(places);
  const auto all_texts = world.gather(texts);
  std::vector<BadImage> all;
  for (std::size_t rank = 0; rank < all_places.size(); ++rank)
    for (std::size_t i = 0; i < all_places[rank].size(); ++i)
      all.push_back({all_places[rank][i].sample,
                     all_texts[rank][i] + ", read by " + world.name_of(static_cast<int>(rank)),
                     all_places[rank][i].damaged});
  return all;
}

long long count_valid_in_train(World& world, const SampleTable& train, const SampleTable& valid) {
  std::vector<std::uint64_t> mine, all;
  for (std::size_t i = 0; i < valid.size(); ++i)
    if (valid.hash(i) != 0) mine.push_back(valid.hash(i));
  for (const auto& part : world.gather(mine)) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  const auto place_of = [&](std::uint64_t hash) {  // the first of equal ones
    return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), hash) - all.begin());
  };
  std::vector<double> found(all.size());
  for (std::size_t i = 0; i < train.size(); ++i) {
    const std::uint64_t hash = train.hash(i);
    const std::size_t place = place_of(hash);
    if (place < all.size() && all[place] == hash) found[place] = 1;
  }
  found = world.sum(found);
  return std::count_if(all.begin(), all.end(),
                       [&](std::uint64_t hash) { return found[place_of(hash)] > 0; });
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
  if (ranks_may_share_gpus()) keep_nccl_ranks_apart(world.rank());
  NcclPlan plan;
  plan.size = world.size();
  plan.deadline_s = config.collective_timeout_s;
  plan.watch = watch_over_mpi(world, config, log_path, log);
  plan.join_group = [&world, gpu = device.index] {
    std::string id;
    world.agree([&] { id = world.leads() ? make_nccl_id() : ""; });
    return join_nccl_group({world.rank(), world.size(), gpu, world.broadcast(id)});
  };
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
