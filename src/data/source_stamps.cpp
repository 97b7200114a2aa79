#include "data/source_stamps.h"

#include <sys/stat.h>

#include "base/files.h"
#include "base/in_parallel.h"
#include "data/folder_entries.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::int64_t stamp_of_names(const fs::path& folder) {
  std::uint64_t hash = fnv1a({});
  try {
    for (const FolderEntry& entry : FolderEntries(folder)) {
      if (entry.name.starts_with('.')) continue;
      hash = fnv1a(entry.name, hash);
      hash = fnv1a(entry.kind == FolderEntry::Kind::kFolder ? "//" : "/", hash);
    }
  } catch (const fs::filesystem_error&) {
    return 0;
  }
  return static_cast<std::int64_t>(hash);
}

}  // namespace

SourceStamp stamp_of(const fs::path& root, const std::string& name) {
  SourceStamp stamp{.name = name};
  struct stat info {};
  if (::stat(name.empty() ? root.c_str() : (root / name).c_str(), &info) != 0) return stamp;
  if (name.empty() && S_ISDIR(info.st_mode)) {
    stamp.stamp = stamp_of_names(root);
    return stamp;
  }
  stamp.changed_ns =
      static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  const std::int64_t facts[] = {stamp.changed_ns, S_ISREG(info.st_mode) ? info.st_size : -1};
  stamp.stamp =
      static_cast<std::int64_t>(fnv1a({reinterpret_cast<const char*>(facts), sizeof facts}));
  return stamp;
}

std::vector<std::string> changed_sources(const fs::path& root,
                                         const std::vector<SourceStamp>& stamps) {
  std::vector<char> is_changed(stamps.size(), 0);
  in_parallel(stamps.size(), kScanThreads, [&](std::size_t i) {
    is_changed[i] = stamp_of(root, stamps[i].name).stamp == stamps[i].stamp ? 0 : 1;
  });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    if (is_changed[i] != 0) names.push_back(stamps[i].name);
  }
  return names;
}

}  // namespace kiln
