#include "tools/pack/pack.h"

#include <algorithm>
#include <deque>
#include <future>
#include <iterator>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/system.h"
#include "base/text.h"
#include "base/tfrecord.h"
#include "data/archive/archive.h"
#include "data/archive/record_reader.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/image/unread_kind.h"
#include "data/split/groups.h"
#include "run/inputs/image_sizes.h"
#include "tools/commands.h"
#include "tools/convert/convert.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;
constexpr std::size_t kMaxClassesNamed = 20;
constexpr std::size_t kAtOnce = 128;  // images in memory at a time

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
  const std::string name = resolved(input).filename().string();
  const std::string stem = name.substr(0, name.find('.'));
  return stem.empty() || stem.size() > 80 ? "images" : stem;
}

// The images of each class in the order, which may repeat some.
std::vector<long long> images_of_classes(const Dataset& set,
                                         const std::vector<std::uint32_t>& order) {
  std::vector<long long> counts(set.classes.size());
  for (const std::uint32_t i : order) ++counts[static_cast<std::size_t>(set.samples.label(i))];
  return counts;
}

// "cat 400, dog 400"; for many classes the smallest and the largest number, "12 to 400".
std::string class_text(const Dataset& set, const std::vector<std::uint32_t>& order) {
  const std::vector<long long> counts = images_of_classes(set, order);
  if (counts.size() > kMaxClassesNamed) {
    const auto [least, most] = std::ranges::minmax_element(counts);
    return grouped(*least) + " to " + grouped(*most);
  }
  std::string text;
  for (std::size_t c = 0; c < counts.size(); ++c)
    text += (c == 0 ? "" : ", ") + set.classes[c] + " " + grouped(counts[c]);
  return text;
}

void log_result(const PackConfig& config, const Dataset& set,
                const std::vector<std::uint32_t>& order, const PackedShards& packed, Log& log) {
  const auto warn_of = [&](const std::vector<std::string>& files, const char* what,
                           const char* then) {
    if (!files.empty())
      log.warning(formatted("%zu of %zu files %s and are packed unchanged: ", files.size(),
                            order.size(), what) +
                  quoted_names(files, kMaxNamed) + ". Training will " + then);
  };
  warn_of(packed.undecodable, "cannot be decoded", "skip them as bad images.");
  warn_of(packed.damaged, "are damaged", "use what can be decoded of them.");
  if (const std::string note = note_of_contradictions(set, hashes_of(set.samples)); !note.empty())
    log.warning(note);
  const std::size_t num_copies = order.size() - set.samples.size();
  log.info("Packed " + plural(std::ssize(order), "image", "images") +
           formatted(" (%zu downscaled", packed.num_reduced) +
           (num_copies > 0 ? formatted(", %zu of them duplicates", num_copies) : "") + ") of " +
           plural(std::ssize(set.classes), "class", "classes") + " into " +
           plural(static_cast<long long>(packed.num_shards), "shard", "shards") +
           formatted(", %.1f MiB: '", static_cast<double>(packed.num_bytes) / (1 << 20)) +
           config.output_path + "'.");
  log.info("Images of each class: " + class_text(set, order) + ".");
}

struct PackedImage {
  std::string bytes, extension;
  bool is_reduced = false, is_undecodable = false, is_damaged = false;
};

// `packed` keeps the memory of the image that it held.
void pack_image(Dataset& set, std::size_t i, const ShardPlan& plan, PackedImage& packed) {
  const std::string_view name = set.samples.file_name(i);
  packed.extension = in_small_letters(name.substr(name.rfind('.') + 1));
  packed.is_reduced = packed.is_undecodable = packed.is_damaged = false;
  try {
    read_image_bytes(set, i, packed.bytes);
    set.samples.set_content(i, packed.bytes);
  } catch (const ImageFault& fault) {
    set.fail("'" + std::string(name) + "' cannot be used: " + fault.what() +
             ". Fix the file, or remove it.");
  }
  if (image_kind(packed.bytes).empty())
    set.fail("'" + std::string(name) +
             "' is no image (any more): " + fault_of_unread(packed.bytes) + ". Remove it.");
  try {
    if (plan.short_side == 0) {
      read_image_size(packed.bytes, set.exif);
      return;
    }
    const DecodedImage decoded = decode_image(packed.bytes, set.exif);
    const ImageSize size = decoded.image.size;
    packed.is_damaged = !decoded.damage.empty();  // a reduced copy would pass for a whole image
    if (packed.is_damaged || std::min(size.height, size.width) <= plan.short_side) return;
    packed.bytes =
        encode_jpeg(resized(decoded.image, resized_size(size, plan.short_side)), plan.quality);
    packed.extension = "jpg";
    packed.is_reduced = true;
  } catch (const ImageFault&) {
    packed.is_undecodable = true;  // training reports why
  }
}

// Spreads each class evenly over the whole order: its image j of m lies at (j + 1/2) / m of it.
std::vector<std::uint32_t> spread_by_class(const Dataset& set,
                                           const std::vector<std::uint32_t>& order) {
  const std::vector<long long> counts = images_of_classes(set, order);
  std::vector<long long> seen(counts.size());
  std::vector<std::pair<double, std::uint32_t>> places;
  for (const std::uint32_t i : order) {
    const auto label = static_cast<std::size_t>(set.samples.label(i));
    const double place = static_cast<double>(seen[label]++) + 0.5;
    places.emplace_back(place / static_cast<double>(counts[label]), i);
  }
  std::ranges::stable_sort(places, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::uint32_t> spread;
  spread.reserve(places.size());
  for (const auto& [place, i] : places) spread.push_back(i);
  return spread;
}

// The digits of the id in a .cls file. Where classes have numbers for names that are not their ids,
// ids have leading zeros, as many that no class has such a name: readers would take it for that.
int digits_of_labels(const Dataset& set) {
  const auto digits = [](std::size_t number) { return std::to_string(number).size(); };
  std::set<std::size_t> taken;
  bool is_misleading = false;
  for (std::size_t id = 0; id < set.classes.size(); ++id) {
    if (!is_class_number(set.classes[id])) continue;
    taken.insert(set.classes[id].size());
    is_misleading = is_misleading || set.classes[id] != std::to_string(id);
  }
  if (!is_misleading) return 1;
  for (std::size_t count = digits(set.classes.size() - 1); count <= digits(kMaxClasses - 1);
       ++count)
    if (!taken.contains(count)) return static_cast<int>(count);
  set.fail(
      "the names of its classes are numbers of every length, so that no label in a tar can "
      "be told from them. Give another --format.");
}

class ShardWriter {
 public:
  ShardWriter(Dataset& set, ShardPlan plan, const fs::path& folder)
      : set_(set), plan_(std::move(plan)), folder_(folder) {
    if (plan_.format == ShardFormat::kTar) label_digits_ = digits_of_labels(set);
    if (!plan_.even_shards) return;
    plan_.order = spread_by_class(set, plan_.order);
    std::uint64_t bytes = 0;
    for (const std::uint32_t i : plan_.order)  // roughly: of a tar, with headers and padding
      bytes += 512 + (stored_bytes(set, i).value_or(0) + 511) / 512 * 512 + 1024;
    num_even_shards_ = std::clamp<std::size_t>((bytes + plan_.shard_bytes - 1) / plan_.shard_bytes,
                                               1, plan_.order.size());
  }

  PackedShards run(std::vector<DurableFile>& shards) {
    const std::size_t count = plan_.order.size();
    std::vector<PackedImage> images, packed;
    std::future<void> writing;  // `packed`, while the next images are read; last: it waits
    for (std::size_t begin = 0; begin < count; begin += kAtOnce) {
      images.resize(std::min(kAtOnce, count - begin));
      in_parallel(images.size(), usable_cpus(), [&](std::size_t i) {
        pack_image(set_, plan_.order[begin + i], plan_, images[i]);
      });
      if (writing.valid()) writing.get();
      packed.swap(images);
      writing = std::async(std::launch::async, [this, begin, &packed] {
        for (std::size_t i = 0; i < packed.size(); ++i) add(begin + i, packed[i]);
      });
    }
    if (writing.valid()) writing.get();
    if (is_open_) end_shard();
    if (finishing_.valid()) finishing_.get();
    packed_.num_shards = shards_.size();
    for (const auto& [name, index] : indexes_) {
      shards_.emplace_back(folder_ / name);
      shards_.back().write(index);
    }
    std::ranges::move(shards_, std::back_inserter(shards));
    return std::move(packed_);
  }

 private:
  bool is_shard_full(std::size_t position, std::uint64_t next_bytes) const {
    if (plan_.even_shards) {
      const std::size_t count = plan_.order.size();
      return position * num_even_shards_ / count != (position - 1) * num_even_shards_ / count;
    }
    return shard_bytes_ + next_bytes > plan_.shard_bytes;
  }

  void add(std::size_t position, const PackedImage& image) {
    const std::uint32_t i = plan_.order[position];
    if (image.bytes.size() > max_image_bytes(plan_.format))
      set_.fail("'" + std::string(set_.samples.file_name(i)) +
                "' is too large for a record of this format. Give --short-side to make images "
                "smaller, or another --format.");
    const std::string record = record_of(position, image);
    if (is_open_ && is_shard_full(position, record.size())) end_shard();
    if (!is_open_) {
      // Names are such that the shards, sorted by name, hold the images in order.
      stem_ = plan_.name + formatted("-%06zu", shards_.size());
      const char* extension = plan_.format == ShardFormat::kTfRecord   ? ".tfrecord"
                              : plan_.format == ShardFormat::kRecordIo ? ".rec"
                                                                       : ".tar";
      shards_.emplace_back(folder_ / (stem_ + extension));
      shard_bytes_ = 0;
      is_open_ = true;
    }
    if (plan_.format == ShardFormat::kRecordIo)
      index_ += std::to_string(position) + "\t" + std::to_string(shard_bytes_) + "\n";
    shards_.back().write(record);
    shard_bytes_ += record.size();
    packed_.num_bytes += record.size();
    packed_.num_reduced += image.is_reduced ? 1 : 0;
    if (image.is_undecodable) packed_.undecodable.emplace_back(set_.samples.file_name(i));
    if (image.is_damaged) packed_.damaged.emplace_back(set_.samples.file_name(i));
  }

  std::string record_of(std::size_t position, const PackedImage& image) const {
    const std::uint32_t i = plan_.order[position];
    const int label = set_.samples.label(i);
    if (plan_.format == ShardFormat::kRecordIo)
      return recordio_record(recordio_image_of(image.bytes, label, position));
    if (plan_.format == ShardFormat::kTfRecord) {
      const RecordContents record{.name = std::string(set_.samples.file_name(i)),
                                  .bytes = image.bytes,
                                  .labels = {label},
                                  .class_text = set_.classes[static_cast<std::size_t>(label)]};
      return tfrecord(example_of(record, image.extension == "jpg" ? "jpeg" : image.extension));
    }
    const std::string key = formatted("%09zu", position);  // WebDataset: KEY.jpg, then KEY.cls
    return tar_member(key + "." + image.extension, image.bytes) +
           tar_member(key + ".cls", formatted("%0*d", label_digits_, label));
  }

  void end_shard() {
    if (plan_.format == ShardFormat::kTar) shards_.back().write(tar_end());
    if (finishing_.valid()) finishing_.get();
    finishing_ = std::async(std::launch::async, [shard = &shards_.back()] { shard->finish(); });
    if (!index_.empty()) indexes_.emplace_back(stem_ + ".idx", std::exchange(index_, {}));
    is_open_ = false;
  }

  Dataset& set_;
  ShardPlan plan_;
  const fs::path& folder_;
  int label_digits_ = 1;
  std::size_t num_even_shards_ = 0;
  std::string stem_;  // the file name without extension
  // Of RecordIO, as im2rec.py writes it next to the shard: lines "POSITION<tab>OFFSET".
  std::string index_;
  std::vector<std::pair<std::string, std::string>> indexes_;  // names and contents
  std::deque<DurableFile> shards_;                            // their addresses stay
  std::future<void> finishing_;  // the shard before the one that is written
  std::uint64_t shard_bytes_ = 0;
  bool is_open_ = false;
  PackedShards packed_;
};

}  // namespace

OutputFolder take_shard_output(const fs::path& path, const fs::path& input) {
  check_output_folder(path, input);
  OutputFolder folder(path, OutputFolder::Interrupted::kDiscard);
  folder.require_empty();
  folder.prepare();
  return folder;
}

PackedShards write_shards(Dataset& set, ShardPlan plan, const OutputFolder& folder) {
  for (std::size_t id = 0; id < set.classes.size(); ++id)
    if (const std::string fault = fault_of_class_line(set.classes[id], id == 0); !fault.empty())
      set.fail("the class name '" + set.classes[id] + "' " + fault + ". Rename it.");
  set.samples.keep_hashes();
  std::vector<DurableFile> files;
  PackedShards packed = ShardWriter(set, std::move(plan), folder.path()).run(files);
  std::string classes;
  for (const std::string& name : set.classes) classes += name + "\n";
  files.push_back(complete_file(folder.path() / kClassesName, classes));
  if (set.exif == Exif::kIgnore)
    files.push_back(complete_file(folder.path() / kSourceName, kImageDirectorySource));
  folder.replace(std::move(files), {});
  return packed;
}

std::uint64_t max_image_bytes(ShardFormat format) {
  constexpr std::uint64_t kHeaderAndMore = 4096;
  return format == ShardFormat::kRecordIo ? (std::uint64_t{1} << 29) - kHeaderAndMore
                                          : std::uint64_t{1} << 30;
}

std::vector<std::uint32_t> balanced_copies(const SampleTable& samples, std::uint64_t seed) {
  std::vector<std::vector<std::uint32_t>> classes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto label = static_cast<std::size_t>(samples.label(i));
    if (label >= classes.size()) classes.resize(label + 1);
    classes[label].push_back(static_cast<std::uint32_t>(i));
  }
  std::size_t most = 0;
  for (const auto& images : classes) most = std::max(most, images.size());
  std::vector<std::uint32_t> copies(samples.size());
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const auto count = static_cast<std::uint32_t>(classes[label].size());
    if (count == 0) continue;
    const std::vector<std::uint32_t> drawn = permutation(count, {seed, label, count});
    for (std::uint32_t k = 0; k < count; ++k)
      copies[classes[label][drawn[k]]] = most / count + (k < most % count ? 1 : 0);
  }
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < copies.size(); ++i) order.insert(order.end(), copies[i], i);
  return order;
}

int run(const PackConfig& config, Process& process) {
  Dataset set = read_labeled_dataset(config.input_path, "Input dataset", config.records);
  leave_out_other_contents(set);
  report_unused(config.records, set);
  warn_of_notes(set, process.log);
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
  // Read back as their readers will.
  const Dataset made = read_labeled_dataset(config.output_path, "Output");
  if (made.classes != set.classes ||
      counts_by_class(made, made.classes.size()) != images_of_classes(set, order))
    throw InternalError("the shards do not match the packed images");
  log_result(config, set, order, packed, process.log);
  return 0;
}

}  // namespace kiln
