// Whether the files that a list names are there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/in_parallel.h"
#include "data/dataset_readers.h"
#include "data/folder_entries.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;
constexpr std::size_t kWorthListing = 32;  // files of a folder; fewer are looked up one by one

// Why `path` is no regular file; empty when it is one.
std::string fault_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? "is missing" : std::string("cannot be read: ") + std::strerror(errno);
  }
  return S_ISREG(info.st_mode) ? "" : "is not a file";
}

bool is_file_in(const FolderEntries& entries, std::string_view name) {
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [](const FolderEntry& entry, std::string_view n) { return entry.name < n; });
  return found != entries.end() && found->name == name && found->kind == FolderEntry::Kind::kFile;
}

// The items of one folder, by their positions.
struct ListedFolder {
  std::string name;  // relative to the root, with its last slash; empty: the root
  std::vector<std::uint32_t> items;
};

std::vector<ListedFolder> group_by_folder(const ImageItems& items) {
  std::map<std::string_view, std::vector<std::uint32_t>> groups;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string_view file = items.file_name(i);
    groups[file.substr(0, file.rfind('/') + 1)].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<ListedFolder> folders;
  folders.reserve(groups.size());
  for (auto& [name, positions] : groups)
    folders.push_back({std::string(name), std::move(positions)});
  return folders;
}

using Faults = std::map<std::uint32_t, std::string>;

Faults faults_in(const ListedFolder& folder, const ImageItems& items, const fs::path& root) {
  FolderEntries entries;
  if (folder.items.size() >= kWorthListing) {
    try {
      entries = FolderEntries(root / folder.name);
    } catch (const fs::filesystem_error&) {  // each of its files will tell why
    }
  }
  Faults faults;
  for (const std::uint32_t i : folder.items) {
    const std::string_view file = items.file_name(i);
    if (is_file_in(entries, file.substr(folder.name.size()))) continue;
    if (std::string fault = fault_of(root / file); !fault.empty())
      faults.emplace(i, std::move(fault));
  }
  return faults;
}

}  // namespace

void check_listed_files(ImageSet& set, const std::vector<int>& lines, const std::string& list,
                        const DatasetContext& context) {
  const std::vector<ListedFolder> folders = group_by_folder(set.items);
  std::vector<SourceStamp> stamps(folders.size());
  std::mutex mutex;
  Faults faults;
  in_parallel(folders.size(), kScanThreads, [&](std::size_t i) {
    stamps[i] = stamp_of(context.root, folders[i].name);
    Faults found = faults_in(folders[i], set.items, context.root);
    const std::scoped_lock lock(mutex);
    faults.merge(found);
  });
  set.stamps.insert(set.stamps.end(), stamps.begin(), stamps.end());
  if (faults.empty()) return;
  std::string named;
  std::size_t num_named = 0;
  for (const auto& [i, fault] : faults) {
    if (++num_named > kMaxNamed) break;
    named += (named.empty() ? "'" : ", '") + std::string(set.items.file_name(i)) + "' " + fault;
    if (!lines.empty()) named += " (line " + std::to_string(lines[i]) + ")";
  }
  if (faults.size() > kMaxNamed) named += ", …";
  context.fail(list + " lists " + std::to_string(set.items.size()) + " images, of which " +
               std::to_string(faults.size()) + " cannot be used: " + named +
               ". Bring the files back, or take their lines out of the list.");
}

}  // namespace kiln
