#include "run/prepare/shared_sources.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"
#include "run/prepare/rank_agreement.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxCompared = 64;                     // images, and folders
constexpr std::size_t kImageBytes = std::size_t{1} << 18;    // the beginning of an image
constexpr std::size_t kArchiveBytes = std::size_t{1} << 16;  // the beginning and end of an archive
constexpr std::size_t kMaxArchives = 256;     // of which the beginning and end are compared
constexpr std::size_t kMaxInFolder = 20'000;  // larger folders take long to list
constexpr std::uint64_t kUnreadable = 0;

// `most` of the numbers below `count`, or all of them, spread evenly.
std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::vector<std::size_t> places(std::min(count, most));
  for (std::size_t k = 0; k < places.size(); ++k)
    places[k] = (2 * k + 1) * count / (2 * places.size());
  return places;
}

std::uint64_t hash_of_ends(const OpenFile& file) try {
  std::string bytes(2 * kArchiveBytes, '\0');
  const std::uint64_t size = file.size();
  const std::size_t first = file.read_at(0, bytes.data(), kArchiveBytes);
  const std::uint64_t rest = size > kArchiveBytes ? size - kArchiveBytes : 0;
  const std::size_t last = file.read_at(rest, bytes.data() + first, kArchiveBytes);
  return content_hash(std::string_view(bytes).substr(0, first + last));
} catch (const std::system_error&) {
  return kUnreadable;
}

std::uint64_t hash_of_beginning(const Dataset& set, std::size_t image) {
  std::string bytes;
  try {
    read_first_bytes(set, image, kImageBytes, bytes);
  } catch (const ImageFault&) {
    return kUnreadable;
  }
  return content_hash(std::string_view(bytes).substr(0, kImageBytes));
}

std::string_view folder_of(std::string_view file_name) {
  const std::size_t end = file_name.rfind('/');
  return file_name.substr(0, end == file_name.npos ? 0 : end);
}

// The folders of the images at `places` whose entries are images without a list that names them.
std::vector<std::string> folders_of(const Dataset& set, const std::vector<std::size_t>& places) {
  using Kind = Dataset::Kind;
  if (set.kind != Kind::kClassFolders && set.kind != Kind::kUnlabeledFolder) return {};
  std::map<std::string, std::size_t, std::less<>> counts;
  for (const std::size_t i : places) counts.emplace(folder_of(set.samples.file_name(i)), 0);
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    if (const auto found = counts.find(folder_of(set.samples.file_name(i))); found != counts.end())
      ++found->second;
  std::vector<std::string> folders;
  for (const auto& [name, count] : counts)
    if (count <= kMaxInFolder) folders.push_back(name);
  return folders;
}

// One more than the number of images in the folder.
std::uint64_t count_of_images(const std::filesystem::path& folder) {
  std::uint64_t count = 1;
  try {
    for (const FolderEntry& entry : FolderEntries(folder))
      count += entry.type == std::filesystem::file_type::regular && !entry.name.starts_with('.') &&
               has_image_extension(entry.name);
  } catch (const std::filesystem::filesystem_error&) {
    return kUnreadable;
  }
  return count;
}

// Compares what the ranks have found for each of some things, of which there are as many on all.
// `describe` is a sentence on a difference: of which thing, and the values of the other rank and of
// rank 0.
using Describe = std::function<std::string(std::size_t k, const std::string& rank,
                                           std::uint64_t other, std::uint64_t of_rank_0)>;
void require_same_values(World& world, const Dataset& set, std::size_t count,
                         const std::function<std::uint64_t(std::size_t)>& find,
                         const Describe& describe) {
  std::vector<std::uint64_t> mine(count);
  in_parallel(count, kScanThreads, [&](std::size_t k) { mine[k] = find(k); });
  std::vector<std::vector<std::uint64_t>> all = world.gather_on_rank_0(mine);
  for (std::vector<std::uint64_t>& values : all)
    for (std::size_t k = 0; k < count; ++k)
      if (values[k] == kUnreadable || all[0][k] == kUnreadable) values[k] = all[0][k];
  require_same(world, all, [&](std::size_t rank, std::size_t first) {
    std::size_t k = 0;
    while (all[rank][k] == all[first][k]) ++k;
    return Error(ErrorCode::kInvalidDataset, set.name + " differs between ranks: " +
                                                 describe(k, world.name_of(static_cast<int>(rank)),
                                                          all[rank][k], all[first][k]) +
                                                 " Give every rank the same data.");
  });
}

// Summarizes the files of a set, their labels and, where they are compared, its classes.
struct ListPrint {
  std::size_t num_images = 0, hash = 0;
  std::uint64_t classes = 0;
  bool operator==(const ListPrint&) const = default;
};

ListPrint print_of(const Dataset& set) {
  ListPrint print{.num_images = set.samples.size()};
  for (const Sample& sample : set.samples)
    print.hash = print.hash * 1099511628211ULL + std::hash<std::string_view>{}(sample.file_name) +
                 static_cast<std::size_t>(sample.label);
  return print;
}

std::string in_words(const ListPrint& print) {
  return std::to_string(print.num_images) + " images, list " + std::to_string(print.hash);
}

void require_same_set(World& world, const Dataset& set) {
  ListPrint mine = print_of(set);
  mine.classes = content_hash(to_bytes(set.classes));
  const std::vector<ListPrint> all = world.gather(mine);
  const auto other = std::ranges::find_if(all, [&](const ListPrint& one) { return one != all[0]; });
  std::vector<std::string> found;
  if (other != all.end())
    found = world.gather(other->classes == all[0].classes
                             ? in_words(mine)
                             : cut_to_bytes("classes " + joined(set.classes, ", "), 2000));
  require_same(world, all, [&](std::size_t rank, std::size_t first) {
    return Error(ErrorCode::kInvalidDataset,
                 set.name + " differs between ranks: " + world.name_of(static_cast<int>(rank)) +
                     " found " + found[rank] + ", rank 0 found " + found[first] +
                     ". Give every rank the same data.");
  });
}

// The parts have one image size.
void require_same_size(World& world, const PixelPlan& mine) {
  const std::vector<PixelPlan> all = world.gather(mine);
  require_same(world, all, [&](std::size_t /*rank*/, std::size_t first) {
    const bool is_exif = std::ranges::any_of(
        all, [&](const PixelPlan& one) { return one.train.exif != all[first].train.exif; });
    return Error(ErrorCode::kInvalidDataset,
                 is_exif ? "Only some shards of the training dataset are an ImageDirectory, so the "
                           "ranks would treat EXIF orientations differently. Set --exif."
                         : "The shards of the training dataset have images of different sizes, so "
                           "the ranks would choose different image sizes. Set --image-size.");
  });
}

// What a rank reads: its folder, or its own stream.
std::string place_of(const Dataset& set) {
  return set.is_stream() ? set.root.string() : std::filesystem::canonical(set.root).string();
}

// `all`, restricted to the ranks with the same value of `part`.
Shard among(World& world, const std::string& part, Shard all) {
  const std::vector<std::string> parts = world.gather(part);
  const auto mine = parts.begin() + world.rank();
  all.rank = static_cast<int>(std::count(parts.begin(), mine, part));
  all.num_ranks = static_cast<int>(std::count(parts.begin(), parts.end(), part));
  return all;
}

// Throws Error kInvalidDataset if ranks of one part have found different values. `found` describes
// one. A collective.
template <typename Value, typename Found>
void require_same_in_part(World& world, const std::string& part, const std::string& name,
                          const Value& mine, Found&& found) {
  const std::vector<std::string> parts = world.gather(part);
  const std::vector<Value> all = world.gather(mine);
  const auto text = [&](std::size_t rank) {
    return world.name_of(static_cast<int>(rank)) + " found " + found(all[rank]);
  };
  const auto difference = [&](std::size_t rank, std::size_t first) {
    return Error(ErrorCode::kInvalidDataset,
                 name + " differs between ranks that divide it: " + text(rank) + ", " +
                     text(first) +
                     ". Give them the same images (FullyReplicated on SageMaker), or each host "
                     "its own with --shard-by train, and a name of its own.");
  };
  require_same(world, all, difference, parts);
}

// The part of the training images that this rank shares with others, and its share of it.
void choose_part(World& world, const StreamConfig& config, const Dataset& train, const Shard& all,
                 Division& division) {
  const std::string& host = world.hosts()[world.rank()];
  const std::string own = host + "\n" + place_of(train);
  division.train_part = config.by_host ? train.root.string() : own;
  division.train = among(world, division.train_part, all);
  if (!train.is_stream()) {
    require_same_in_part(world, division.train_part, train.name, print_of(train), in_words);
    return;
  }
  const int num_readers = among(world, own, all).num_ranks;
  world.agree([&] {
    if (num_readers > 1)
      throw Error(
          ErrorCode::kParameterParsing,
          formatted("%d ranks of a host would read the stream '%s', which can only be read "
                    "once. Give each its own stream, with {rank} in the path for its number; or "
                    "use one rank on each host.",
                    num_readers, train.root.c_str()));
  });
  if (config.by_record) division.train_part = "";
  if (config.by_record || config.by_host) {
    const Shard sharing = among(world, division.train_part, all);
    division.keep_one_of = sharing.num_ranks;
    division.keep_which = sharing.rank;
    division.is_one_stream = true;
  }
  division.train.rank = 0;
  division.train.num_ranks = 1;
}

// Replaces the list of images by rank 0's, without its root and name.
void read_list_of_leader(World& world, Dataset& set) {
  const std::string bytes = world.broadcast(world.leads() ? to_bytes(set) : "");
  if (world.leads()) return;
  Dataset taken = dataset_of(bytes);
  taken.contents = std::move(set.contents);
  set = std::move(taken);
}

// Ranks that have read the transformation must have found the same one; the others take rank 0's.
void share_transformation(World& world, const DataConfig& config, Sources& sources) {
  if (config.transform_path.empty() || world.size() == 1) return;
  const std::string mine = sources.transform ? sources.transform->to_json() : "";
  const std::string of_leader = world.broadcast(mine);
  world.agree([&] {
    Problems problems;
    TransformChain chain = TransformChain::parse(of_leader, config.transform_path, problems);
    problems.throw_if_any();
    if (sources.transform && mine != of_leader)
      throw Error(ErrorCode::kInvalidTransformationDirectory,
                  "--transform-path differs between ranks: " + world.name_of(world.rank()) +
                      " found " + sources.transform->summary() + ", rank 0 found " +
                      chain.summary() + ". Give every rank the same one.");
    sources.transform = std::move(chain);
  });
}

}  // namespace

void require_same_data(World& world, const Dataset& set) {
  if (world.size() == 1 || set.is_stream()) return;
  const auto name_of_archive = [&](std::size_t a) {
    const std::string& name = set.archives[a].name;
    return quoted_path(name.empty() ? set.root : std::filesystem::path(name));
  };
  require_same_values(
      world, set, set.archives.size(), [&](std::size_t a) { return set.archives[a].file.size(); },
      [&](std::size_t a, const std::string& rank, std::uint64_t other, std::uint64_t of_rank_0) {
        return name_of_archive(a) + " has " + grouped(other) + " bytes on " + rank + " and " +
               grouped(of_rank_0) + " on rank 0.";
      });
  const std::vector<std::size_t> archives = spread(set.archives.size(), kMaxArchives);
  require_same_values(
      world, set, archives.size(),
      [&](std::size_t k) { return hash_of_ends(set.archives[archives[k]].file); },
      [&](std::size_t k, const std::string& rank, std::uint64_t, std::uint64_t) {
        return name_of_archive(archives[k]) + " has other contents on " + rank +
               " than on rank 0, though its size is the same.";
      });
  const std::vector<std::size_t> images = spread(set.samples.size(), kMaxCompared);
  require_same_values(
      world, set, images.size(), [&](std::size_t k) { return hash_of_beginning(set, images[k]); },
      [&](std::size_t k, const std::string& rank, std::uint64_t, std::uint64_t) {
        return quoted_path(std::string(set.samples.file_name(images[k]))) +
               " has other contents on " + rank + " than on rank 0.";
      });
  const std::vector<std::string> folders = folders_of(set, images);
  require_same_values(
      world, set, folders.size(),
      [&](std::size_t k) { return count_of_images(set.root / folders[k]); },
      [&](std::size_t k, const std::string& rank, std::uint64_t other, std::uint64_t of_rank_0) {
        const std::uint64_t more = other > of_rank_0 ? other - of_rank_0 : of_rank_0 - other;
        return (other > of_rank_0 ? rank : "rank 0") + " has " + std::to_string(more) +
               (more == 1 ? " more image" : " more images") +
               (other > of_rank_0 ? "" : " than " + rank) +
               (folders[k].empty() ? "." : " in " + quoted_path(folders[k]) + ".");
      });
}

void share_sources(World& world, const DataConfig& config, Sources& sources, PixelPlan& pixels) {
  share_transformation(world, config, sources);
  if (config.has_train_shard) {
    const std::vector<FoundLabels> trains = world.gather(found_labels(sources.train)),
                                   valids = world.gather(found_labels(sources.valid));
    world.agree([&] {
      decide_labels(trains, valids, static_cast<std::size_t>(world.rank()),
                    config.records.first_label, sources.train, sources.valid);
    });
    if (!sources.transform) set_fit(config, sources, world.broadcast(pixels.train.fit), pixels);
    if (!sources.train.is_stream()) require_same_size(world, pixels);
    if (config.has_valid_shard) return;
    require_same_set(world, sources.valid);
    require_same_data(world, sources.valid);
    return;
  }
  if (world.size() == 1) return;
  read_list_of_leader(world, sources.train);
  read_list_of_leader(world, sources.valid);
  const std::string choices = world.broadcast(to_bytes(pixels));
  if (!world.leads()) {
    pixels = from_bytes<PixelPlan>(choices);
    complete_choices(config, sources, pixels);
  }
  sources.train.root = config.train_path;
  sources.valid.root = config.valid_path;
  sources.train.name = "Training dataset";
  sources.valid.name = "Validation dataset";
  world.agree([&] {
    open_archives(sources.train);
    if (sources.is_split) share_archives(sources.train, sources.valid);
    open_archives(sources.valid);
  });
  require_same_data(world, sources.train);
  require_same_data(world, sources.valid);
}

Division divide_images(World& world, const TrainConfig& config, Sources& sources) {
  const Shard all{world.rank(), world.size(), config.optimization.batch_size,
                  config.optimization.accumulate};
  Dataset& train = sources.train;
  Division division;
  division.has_own_train = config.data.has_train_shard;
  division.has_own_valid = config.data.has_valid_shard;
  division.train = all;
  division.train.num_ranks = config.ranks.exchange.num_training_ranks(world.size());
  if (division.has_own_train) choose_part(world, config.data.stream, train, all, division);
  division.valid = division.has_own_valid ? division.train : all;
  if (train.is_stream())
    train.num_streamed = config.data.stream.steps_per_epoch * division.train.images_per_step();
  const std::int64_t own = train.num_images() / division.train.images_per_step();
  const std::vector<std::int64_t> steps = world.gather(own);
  division.steps_per_epoch = *std::min_element(steps.begin(), steps.end());
  return division;
}

void require_one_stream(World& world, const Division& division, const std::string& name,
                        std::uint64_t beginning) {
  if (!division.is_one_stream) return;
  require_same_in_part(world, division.train_part, name, beginning, [](std::uint64_t hash) {
    return "images that begin with " + hex_digits(hash);
  });
}

std::vector<BadImage> share_faults(World& world, const std::vector<BadImage>& mine) {
  if (world.size() == 1) return mine;
  std::vector<BadImage> named = mine;
  for (BadImage& fault : named)
    fault.fault = printable(fault.fault) + ", read by " + world.name_of(world.rank());
  return concatenated(world.gather(named));
}

Twins find_twins(World& world, const Division& division, const Sources& sources) {
  constexpr std::ptrdiff_t kMaxReadHere = 10'000;
  std::vector<const Dataset*> sets;
  if (division.has_own_train || world.leads()) sets.push_back(&sources.train);
  if (!sources.judged_out_of_fold && (division.has_own_valid || world.leads()))
    sets.push_back(&sources.valid);
  std::vector<std::vector<std::uint64_t>> hashes;
  for (const Dataset* set : sets) hashes.push_back(hashes_of(set->samples));
  // Images that filled no step of the first epoch are few.
  const bool reads_rest = world.leads() && !division.has_own_train &&
                          std::ranges::count(hashes.front(), 0U) <= kMaxReadHere;
  std::string bytes;
  for (std::size_t i = 0; reads_rest && i < hashes.front().size(); ++i) {
    if (hashes.front()[i] != 0) continue;
    try {
      read_image_bytes(sources.train, i, bytes);
      hashes.front()[i] = content_hash(bytes);
    } catch (const ImageFault&) {  // the loader reports it
    }
  }
  const auto of_rank_0 =
      repeated_hashes(concatenated(world.gather_on_rank_0(concatenated(hashes))));
  const auto repeated =
      from_bytes<std::vector<std::uint64_t>>(world.broadcast(to_bytes(of_rank_0)));
  std::vector<TwinImage> twins;
  for (std::size_t k = 0; k < sets.size(); ++k)
    std::ranges::move(twins_in(*sets[k], hashes[k], repeated,
                               sets[k] == &sources.valid ? kValidationPart : kTrainingPart),
                      std::back_inserter(twins));
  return twins_among(concatenated(world.gather_on_rank_0(twins)));
}

}  // namespace kiln
