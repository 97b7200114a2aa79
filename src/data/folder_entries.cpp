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

FolderEntry::Kind kind_of(DIR* folder, const fs::path& path, const dirent& entry) {
  if (entry.d_type == DT_REG) return FolderEntry::Kind::kFile;
  if (entry.d_type == DT_DIR) return FolderEntry::Kind::kFolder;
  if (entry.d_type == DT_LNK || entry.d_type == DT_UNKNOWN)
    return look_up(folder, path, entry.d_name);
  return FolderEntry::Kind::kOther;
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
    entries_.push_back({name, kind_of(open.get(), folder, *entry)});
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
