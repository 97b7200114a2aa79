#include "data/folder_entries.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& place, int error) {
  throw fs::filesystem_error("", place, std::error_code(error, std::generic_category()));
}

// Of links, and where the file system does not tell.
FolderEntry::Kind look_up(DIR* folder, const fs::path& path, const char* name) {
  struct stat info {};
  if (::fstatat(::dirfd(folder), name, &info, 0) != 0) {
    if (errno == EACCES) fail(path / name, errno);
    return FolderEntry::Kind::kLost;
  }
  if (S_ISDIR(info.st_mode)) return FolderEntry::Kind::kFolder;
  return S_ISREG(info.st_mode) ? FolderEntry::Kind::kFile : FolderEntry::Kind::kOther;
}

FolderEntry entry_of(DIR* folder, const fs::path& path, const dirent& entry) {
  using Kind = FolderEntry::Kind;
  const std::string_view name = entry.d_name;
  if (entry.d_type == DT_REG) return {name, Kind::kFile, false};
  if (entry.d_type == DT_DIR) return {name, Kind::kFolder, false};
  if (entry.d_type == DT_LNK || entry.d_type == DT_UNKNOWN)
    return {name, look_up(folder, path, entry.d_name), true};
  return {name, Kind::kOther, false};
}

}  // namespace

FolderEntries::FolderEntries(const fs::path& folder) {
  struct Close {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> open(::opendir(folder.c_str()));
  if (!open) fail(folder, errno);
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names_.insert(names_.end(), name.begin(), name.end());
    entries_.push_back(entry_of(open.get(), folder, *entry));
  }
  if (errno != 0) fail(folder, errno);
  const char* at = names_.data();
  for (FolderEntry& entry : entries_) {
    entry.name = {at, entry.name.size()};
    at += entry.name.size();
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
}

}  // namespace kiln
