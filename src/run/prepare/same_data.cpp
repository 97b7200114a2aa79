#include "run/prepare/same_data.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"

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

// One value for each of `count` things, found by several threads.
std::vector<std::uint64_t> find_each(std::size_t count,
                                     const std::function<std::uint64_t(std::size_t)>& find) {
  std::vector<std::uint64_t> found(count);
  in_parallel(count, kScanThreads, [&](std::size_t k) { found[k] = find(k); });
  return found;
}

std::uint64_t hash_of_ends(const OpenFile& file) {
  std::string bytes(2 * kArchiveBytes, '\0');
  try {
    const std::uint64_t size = file.size();
    const std::size_t first = file.read_at(0, bytes.data(), kArchiveBytes);
    const std::uint64_t rest = size > kArchiveBytes ? size - kArchiveBytes : 0;
    const std::size_t last = file.read_at(rest, bytes.data() + first, kArchiveBytes);
    return content_hash(std::string_view(bytes).substr(0, first + last));
  } catch (const std::system_error&) {
    return kUnreadable;
  }
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
      count += entry.kind == FolderEntry::Kind::kFile && !entry.name.starts_with('.') &&
               has_image_extension(entry.name);
  } catch (const std::filesystem::filesystem_error&) {
    return kUnreadable;
  }
  return count;
}

// Compares the ranks' values. `tell` describes a difference: of which thing, and the values of the
// other rank and of rank 0.
using Tell = std::function<std::string(std::size_t k, const std::string& rank, std::uint64_t other,
                                       std::uint64_t of_rank_0)>;
void require_equal(World& world, const Dataset& set, const std::vector<std::uint64_t>& mine,
                   const Tell& tell) {
  const auto all = world.gather(mine);
  world.agree([&] {
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      for (std::size_t k = 0; k < mine.size(); ++k) {
        const std::uint64_t other = all[rank][k], of_rank_0 = all[0][k];
        if (other == of_rank_0 || other == kUnreadable || of_rank_0 == kUnreadable) continue;
        throw Error(ErrorCode::kInvalidDataset,
                    set.name + " differs between ranks: " +
                        tell(k, world.name_of(static_cast<int>(rank)), other, of_rank_0) +
                        " Give every rank the same data.");
      }
  });
}

std::string more_images(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " more image" : " more images");
}

}  // namespace

void require_same_data(World& world, const Dataset& set) {
  if (world.size() == 1 || set.is_stream()) return;
  const auto name_of_archive = [&](std::size_t a) {
    const std::string& name = set.archives[a].name;
    return quoted_path(name.empty() ? set.root : std::filesystem::path(name));
  };
  require_equal(
      world, set,
      find_each(set.archives.size(), [&](std::size_t a) { return set.archives[a].file.size(); }),
      [&](std::size_t a, const std::string& rank, std::uint64_t other, std::uint64_t of_rank_0) {
        return name_of_archive(a) + " has " + grouped(static_cast<long long>(other)) +
               " bytes on " + rank + " and " + grouped(static_cast<long long>(of_rank_0)) +
               " on rank 0.";
      });
  const std::vector<std::size_t> archives = spread(set.archives.size(), kMaxArchives);
  require_equal(
      world, set,
      find_each(archives.size(),
                [&](std::size_t k) { return hash_of_ends(set.archives[archives[k]].file); }),
      [&](std::size_t k, const std::string& rank, std::uint64_t, std::uint64_t) {
        return name_of_archive(archives[k]) + " has other contents on " + rank +
               " than on rank 0, though its size is the same.";
      });
  const std::vector<std::size_t> images = spread(set.samples.size(), kMaxCompared);
  require_equal(
      world, set,
      find_each(images.size(), [&](std::size_t k) { return hash_of_beginning(set, images[k]); }),
      [&](std::size_t k, const std::string& rank, std::uint64_t, std::uint64_t) {
        return quoted_path(std::string(set.samples.file_name(images[k]))) +
               " has other contents on " + rank + " than on rank 0.";
      });
  const std::vector<std::string> folders = folders_of(set, images);
  require_equal(
      world, set,
      find_each(folders.size(),
                [&](std::size_t k) { return count_of_images(set.root / folders[k]); }),
      [&](std::size_t k, const std::string& rank, std::uint64_t other, std::uint64_t of_rank_0) {
        const std::string where = folders[k].empty() ? "." : " in " + quoted_path(folders[k]) + ".";
        return other > of_rank_0
                   ? rank + " has " + more_images(other - of_rank_0) + where
                   : "rank 0 has " + more_images(of_rank_0 - other) + " than " + rank + where;
      });
}

}  // namespace kiln
