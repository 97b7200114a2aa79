#include "commands/commands.h"

#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/dataset/image_index.h"
#include "data/write/shard_writer.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint32_t> chosen_order(const PackConfig& config, std::size_t count) {
  const auto size = static_cast<std::uint32_t>(count);
  if (config.shuffle) return permutation(size, {static_cast<std::uint64_t>(config.random_seed)});
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

// "photos" of /data/photos/ and of /data/photos.tar.gz.
std::string shard_name(const fs::path& input) {
  const fs::path full = fs::weakly_canonical(fs::absolute(input));
  const std::string name = (full.has_filename() ? full : full.parent_path()).filename().string();
  const std::string stem = name.substr(0, name.find('.'));
  return stem.empty() || stem.size() > 80 ? "images" : stem;
}

std::string undecodable_text(const PackedShards& packed, std::size_t num_images) {
  return formatted("%zu of %zu files cannot be decoded and are packed unchanged: ",
                   packed.undecodable.size(), num_images) +
         quoted_names(packed.undecodable, 10) + ". Training will leave them out as bad images.";
}

}  // namespace

int run(const PackConfig& config, Process& process) {
  Log& log = process.log;
  const Dataset set = read_labeled_dataset(config.input_path, "Input dataset");
  for (const std::string& note : set.notes) log.warning(note);
  prepare_shard_output(config.output_path, config.input_path);
  const PackedShards packed =
      write_shards(set,
                   {.name = shard_name(config.input_path),
                    .shard_bytes = static_cast<std::uint64_t>(config.shard_mb) << 20,
                    .short_side = config.short_side,
                    .quality = config.quality,
                    .even_shards = config.even_shards,
                    .order = chosen_order(config, set.samples.size())},
                   config.output_path);
  if (!packed.undecodable.empty()) log.warning(undecodable_text(packed, set.samples.size()));
  Dataset made = read_labeled_dataset(config.output_path, "Output");
  if (made.samples.size() != set.samples.size() || made.classes != set.classes)
    throw InternalError("the shards do not contain the packed images");
  scan_sizes(made, SizesWanted::kCommon);
  write_index(std::filesystem::path(config.output_path) / kShardIndexName, made);
  log.info(
      formatted("Packed %zu images (%zu downscaled) of %zu classes into %zu shards, %.1f MiB: '",
                set.samples.size(), packed.num_reduced, set.classes.size(), packed.num_shards,
                static_cast<double>(packed.num_bytes) / (1 << 20)) +
      config.output_path + "'.");
  return 0;
}

}  // namespace kiln
