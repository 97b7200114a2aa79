#include "tools/commands.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/dataset/image_index.h"
#include "data/dataset/readers.h"
#include "tools/convert/image_directory_writer.h"
#include "tools/pack/shard_writer.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;
constexpr std::size_t kMaxClassesNamed = 20;

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

// Reads the folder back as its readers will, checks what they find, and writes its index.
void write_index_of_shards(const Dataset& set, std::size_t num_images, const std::string& folder) {
  Dataset made = read_labeled({.root = folder, .name = "Output", .is_indexed = true});
  if (made.samples.size() != num_images || made.classes != set.classes)
    throw InternalError("the shards do not match the packed images");
  scan_sizes(made, SizesWanted::kCommon);
  write_index(fs::path(folder) / kShardIndexName, made);
}

// "cat 400, dog 400"; for many classes the smallest and the largest number, "12 to 400".
std::string class_text(const Dataset& set, const std::vector<std::uint32_t>& order) {
  std::vector<long long> counts(set.classes.size());
  for (const std::uint32_t i : order) ++counts[static_cast<std::size_t>(set.samples.label(i))];
  if (counts.size() > kMaxClassesNamed) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    return grouped(*least) + " to " + grouped(*most);
  }
  std::string text;
  for (std::size_t c = 0; c < counts.size(); ++c)
    text += (c == 0 ? "" : ", ") + printable(set.classes[c]) + " " + grouped(counts[c]);
  return text;
}

void log_result(const PackConfig& config, const Dataset& set,
                const std::vector<std::uint32_t>& order, const PackedShards& packed, Log& log) {
  if (!packed.undecodable.empty())
    log.warning(formatted("%zu of %zu files cannot be decoded and are packed unchanged: ",
                          packed.undecodable.size(), order.size()) +
                quoted_names(packed.undecodable, kMaxNamed) +
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
  Dataset set = read_labeled_dataset(config.input_path, "Input dataset", config.records);
  leave_out_other_contents(set);
  for (const std::string& note : set.notes) process.log.warning(note);
  const std::vector<std::uint32_t> order = chosen_order(config, set.samples);
  const OutputFolder folder = take_shard_output(config.output_path, config.input_path);
  const PackedShards packed =
      write_shards(set,
                   {.name = shard_name(config.input_path),
                    .shard_bytes = static_cast<std::uint64_t>(config.shard_mb) << 20,
                    .short_side = config.short_side,
                    .quality = config.quality,
                    .even_shards = config.even_shards,
                    .order = order,
                    .format = config.format},
                   folder);
  write_index_of_shards(set, order.size(), config.output_path);
  log_result(config, set, order, packed, process.log);
  return 0;
}

}  // namespace kiln
