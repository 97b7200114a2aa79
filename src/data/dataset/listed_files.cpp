#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <unordered_set>

#include "base/files.h"
#include "base/system.h"
#include "base/text_file.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWorthListing = 32;  // files; in smaller folders, each is checked on its own

// `names` are those of all files directly in a folder, sorted.
std::vector<std::string> json_among(const std::vector<std::string_view>& names) {
  std::unordered_set<std::string_view> keys;
  for (const std::string_view name : names)
    if (has_image_extension(name)) keys.insert(key_of(name));
  std::vector<std::string> found;
  for (const std::string_view name : names)
    if (has_extension(name, ".json") && !name.starts_with('.') && !keys.contains(key_of(name)))
      found.emplace_back(name);
  return found;
}

// Says why `path` is not a regular file; empty if it is one.
std::string fault_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return errno == ENOENT ? "is missing" : std::string("cannot be read: ") + std::strerror(errno);
  return S_ISREG(info.st_mode) ? "" : "is not a file";
}

bool is_file_in(const FolderEntries& entries, std::string_view name) {
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [](const FolderEntry& entry, std::string_view n) { return entry.name < n; });
  return found != entries.end() && found->name == name && found->kind == FolderEntry::Kind::kFile;
}

// The positions of the samples in a folder, whose name has a slash at its end; empty: the root.
using ListedFolder = std::pair<std::string_view, std::vector<std::uint32_t>>;

ListFaults faults_in(const ListedFolder& folder, const SampleTable& samples, const fs::path& root) {
  const auto& [name, positions] = folder;
  FolderEntries entries;
  if (positions.size() >= kWorthListing) {
    try {
      entries = FolderEntries(root / name);
    } catch (const fs::filesystem_error&) {  // each of its files is then checked on its own
    }
  }
  ListFaults faults;
  for (const std::uint32_t i : positions) {
    const std::string_view file = samples.file_name(i);
    if (is_file_in(entries, file.substr(name.size()))) continue;
    if (std::string fault = fault_of(root / file); !fault.empty())
      faults.emplace(i, std::move(fault));
  }
  return faults;
}

}  // namespace

bool FolderFiles::holds(std::string_view name) const {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(context_.root / name, ignored));
}

std::vector<std::string> FolderFiles::json_names() const {
  const FolderEntries entries(context_.root);
  std::vector<std::string_view> names;
  for (const FolderEntry& entry : entries) names.push_back(entry.name);
  return json_among(names);
}

std::string FolderFiles::first_bytes(const std::string& name, std::size_t count) const {
  return kiln::first_bytes(context_.root / name, count);
}

std::string FolderFiles::read_text(const std::string& name, std::uint64_t max_bytes) const {
  return kiln::read_text(context_.root / name, max_bytes);
}

ListFaults FolderFiles::find_images(Dataset& set) const {
  std::map<std::string_view, std::vector<std::uint32_t>> groups;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const std::string_view file = set.samples.file_name(i);
    groups[file.substr(0, file.rfind('/') + 1)].push_back(static_cast<std::uint32_t>(i));
  }
  const std::vector<ListedFolder> folders(std::move_iterator(groups.begin()),
                                          std::move_iterator(groups.end()));
  std::vector<SourceStamp> stamps(folders.size());
  std::mutex mutex;
  ListFaults faults;
  in_parallel(folders.size(), kScanThreads, [&](std::size_t i) {
    stamps[i] = context_.stamp(std::string(folders[i].first));
    ListFaults found = faults_in(folders[i], set.samples, context_.root);
    const std::scoped_lock lock(mutex);
    faults.merge(found);
  });
  set.stamps.insert(set.stamps.end(), stamps.begin(), stamps.end());
  return faults;
}

ArchiveFiles::ArchiveFiles(const ArchiveListing& listing, std::string_view base,
                           std::string archive)
    : listing_(listing), archive_(std::move(archive)) {
  for (const SampleTable* table : {&listing.images, &listing.others})
    for (std::size_t i = 0; i < table->size(); ++i)
      if (std::string_view name = table->file_name(i); name.starts_with(base))
        members_.emplace_back(name.substr(base.size()), table->member(i));
  std::sort(members_.begin(), members_.end());
}

const ArchiveMember* ArchiveFiles::find(std::string_view name) const {
  const std::string normal = normal_name(name);
  const auto found = std::lower_bound(
      members_.begin(), members_.end(), normal,
      [](const auto& member, const std::string& wanted) { return member.first < wanted; });
  return found != members_.end() && found->first == normal ? found->second : nullptr;
}

std::vector<std::string> ArchiveFiles::json_names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, member] : members_)
    if (name.find('/') == name.npos) names.push_back(name);
  return json_among(names);
}

std::string ArchiveFiles::first_bytes(const std::string& name, std::size_t count) const {
  const ArchiveMember* member = find(name);
  if (member == nullptr) throw std::system_error(ENOENT, std::generic_category(), name);
  std::string bytes;
  read_member(listing_.file, *member, count, bytes);
  return bytes;
}

std::string ArchiveFiles::read_text(const std::string& name, std::uint64_t max_bytes) const {
  if (const ArchiveMember* member = find(name); member != nullptr && member->size > max_bytes)
    throw std::length_error(name + " is too large");
  return std::string(without_byte_order_mark(first_bytes(name, SIZE_MAX)));
}

ListFaults ArchiveFiles::find_images(Dataset& set) const {
  ListFaults faults;
  SampleTable found;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    if (const ArchiveMember* member = find(set.samples.file_name(i)))
      found.push_back(set.samples[i], member);
    else
      faults.emplace(i, "is missing");
  }
  if (!faults.empty()) return faults;
  set.samples = std::move(found);
  set.archives.push_back({archive_, listing_.file.duplicate()});
  return faults;
}

}  // namespace kiln
