#include "commands/commands.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/driver_log.h"
#include "commands/shared_output.h"
#include "data/dataset/image_index.h"
#include "data/dataset/readers.h"
#include "data/write/balanced_copies.h"
#include "data/write/other_contents.h"
#include "data/write/shard_writer.h"
#include "process/binding.h"
#include "run/plan/rank_agreement.h"
#include "run/plan/shared_images.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 10;
constexpr std::size_t kMostClassesNamed = 20;

std::vector<std::uint32_t> chosen_order(const PackConfig& config, const SampleTable& samples) {
  const auto seed = static_cast<std::uint64_t>(config.random_seed);
  std::vector<std::uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0U);
  if (config.balance_classes) order = balanced_copies(samples, seed);
  if (!config.shuffle) return order;
  std::vector<std::uint32_t> shuffled;
  shuffled.reserve(order.size());
  for (const std::uint32_t place : permutation(static_cast<std::uint32_t>(order.size()), {seed}))
    shuffled.push_back(order[place]);
  return shuffled;
}

// "photos" for /data/photos/ and for /data/photos.tar.gz.
std::string shard_name(const fs::path& input) {
  const fs::path full = fs::weakly_canonical(fs::absolute(input));
  const std::string name = (full.has_filename() ? full : full.parent_path()).filename().string();
  const std::string stem = name.substr(0, name.find('.'));
  return stem.empty() || stem.size() > 80 ? "images" : stem;
}

ShardPlan shard_plan(const PackConfig& config, const Dataset& set, const World& world) {
  ShardPlan plan{.name = shard_name(config.input_path),
                 .shard_bytes = static_cast<std::uint64_t>(config.shard_mb) << 20,
                 .short_side = config.short_side,
                 .quality = config.quality,
                 .even_shards = config.even_shards,
                 .order = chosen_order(config, set.samples),
                 .format = config.format};
  plan.part = static_cast<std::size_t>(world.rank());
  plan.num_parts = static_cast<std::size_t>(world.size());
  return plan;
}

// Joins the ranks of this job, or does nothing if no launcher has started this process.
void join_world(const PackConfig& config, Process& process) {
  if (!detect_launch_environment().mpi) return;
  end_on_stop_signals();
  World& world = process.world;
  const RanksConfig usual;
  world.join({.deadline_s = static_cast<double>(usual.collective_timeout_s),
              .stall_warning_s = usual.stall_warning_s()},
             /*expected_size=*/0, process.log);
  if (world.size() == 1) return;
  process.log.speak_for_rank(world.rank());
  world.agree([&] { open_driver_log(config.log_path, config.log_path_given, process); });
  bind_to_own_cores(world, /*gpu_node=*/-1);
  world.enter("starting", /*patient=*/true);
  require_one_job(world, config.effective_options, Device{});
}

// Reads the folder back as its readers will, checks what they find, and writes its index.
void finish_folder(const Dataset& set, std::size_t num_images, const std::string& folder) {
  if (num_images == 0) return;
  Dataset made = read_labeled({.root = folder, .name = "Output", .is_indexed = true});
  if (made.samples.size() != num_images || made.classes != set.classes)
    throw InternalError("the shards do not match the packed images");
  scan_sizes(made, SizesWanted::kCommon);
  write_index(fs::path(folder) / kShardIndexName, made);
}

// Puts the shards in place when those of all ranks are complete. Returns what all ranks packed.
PackedShards write_together(const PackConfig& config, const Dataset& set, World& world) {
  const std::vector<int> leaders = folder_leaders(world, config.output_path);
  const bool leads = leaders[static_cast<std::size_t>(world.rank())] == world.rank();
  std::optional<OutputFolder> folder;
  world.agree([&] {
    if (leads) folder.emplace(take_shard_output(config.output_path, config.input_path));
  });
  world.enter("packing", /*patient=*/true);
  std::optional<CompleteShards> shards;
  world.agree([&] { shards.emplace(set, shard_plan(config, set, world), config.output_path); });
  PackedShards packed = shards->packed();
  const std::vector<FinishedFile> others = files_of_others(world, leaders, shards->files());
  const std::vector<std::size_t> counts = world.gather(packed.num_images);
  std::size_t in_folder = 0;
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (leaders[r] == world.rank()) in_folder += counts[r];
  world.enter("putting shards in place", /*patient=*/true);
  world.agree([&] {
    if (!leads) return;
    shards->put_in_place(*folder, others);
    finish_folder(set, in_folder, config.output_path);
  });
  const std::vector<double> sums =
      world.sum({static_cast<double>(packed.num_images), static_cast<double>(packed.num_shards),
                 static_cast<double>(packed.num_bytes), static_cast<double>(packed.num_reduced)});
  packed.num_images = static_cast<std::size_t>(sums[0]);
  packed.num_shards = static_cast<std::size_t>(sums[1]);
  packed.num_bytes = static_cast<std::uint64_t>(sums[2]);
  packed.num_reduced = static_cast<std::size_t>(sums[3]);
  std::vector<std::string> undecodable;
  for (const std::vector<std::string>& names : world.gather(packed.undecodable))
    undecodable.insert(undecodable.end(), names.begin(), names.end());
  packed.undecodable = std::move(undecodable);
  return packed;
}

// "cat 400, dog 400"; for many classes the smallest and the largest number, "12 to 400".
std::string class_text(const Dataset& set, const std::vector<std::uint32_t>& order) {
  std::vector<long long> counts(set.classes.size());
  for (const std::uint32_t i : order) ++counts[static_cast<std::size_t>(set.samples.label(i))];
  if (counts.size() > kMostClassesNamed) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    return grouped(*least) + " to " + grouped(*most);
  }
  std::string text;
  for (std::size_t c = 0; c < counts.size(); ++c)
    text += (c == 0 ? "" : ", ") + printable(set.classes[c]) + " " + grouped(counts[c]);
  return text;
}

void log_result(const PackConfig& config, const Dataset& set, const PackedShards& packed,
                Log& log) {
  const std::vector<std::uint32_t> order = chosen_order(config, set.samples);
  if (!packed.undecodable.empty())
    log.warning(formatted("%zu of %zu files cannot be decoded and are packed unchanged: ",
                          packed.undecodable.size(), order.size()) +
                quoted_names(packed.undecodable, kMostNamed) +
                ". Training will skip them as bad images.");
  const std::size_t num_copies = order.size() - set.samples.size();
  log.info(formatted("Packed %zu images (%zu downscaled", packed.num_images, packed.num_reduced) +
           (num_copies > 0 ? formatted(", %zu of them duplicates", num_copies) : "") +
           formatted(") of %zu classes into %zu shards, %.1f MiB: '", set.classes.size(),
                     packed.num_shards, static_cast<double>(packed.num_bytes) / (1 << 20)) +
           config.output_path + "'.");
  log.info("Images of each class: " + class_text(set, order) + ".");
}

}  // namespace

int run(const PackConfig& config, Process& process) {
  Log& log = process.log;
  join_world(config, process);
  World& world = process.world;
  Dataset set;
  world.agree([&] {
    if (!world.leads()) return;
    set = read_labeled_dataset(config.input_path, "Input dataset", config.records);
    leave_out_other_contents(set);
  });
  share_dataset(world, set);
  if (world.leads())
    for (const std::string& note : set.notes) log.warning(note);
  const PackedShards packed = write_together(config, set, world);
  if (world.leads()) log_result(config, set, packed, log);
  return 0;
}

}  // namespace kiln
