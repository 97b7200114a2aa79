// What stands in a folder, as the folder itself tells it: no entry is opened, and only links are
// looked up.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace kiln {

struct FolderEntry {
  // kLost: a link that leads nowhere or in a circle. kOther: pipes, devices, sockets.
  enum class Kind { kFile, kFolder, kLost, kOther };
  std::string_view name;
  Kind kind = Kind::kOther;  // of what a link leads to
  bool may_be_link = false;  // false: it is none
};

// Sorted by name, byte by byte, without "." and "..".
class FolderEntries {
 public:
  FolderEntries() = default;
  // Throws std::filesystem::filesystem_error naming the place: the folder or a link in it cannot be
  // read.
  explicit FolderEntries(const std::filesystem::path& folder);

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<char> names_;  // that the entries show; keeps its place when moved
  std::vector<FolderEntry> entries_;
};

// Threads that a scan uses: more than there are processors, since on network mounts they wait.
constexpr int kScanThreads = 16;

}  // namespace kiln
