// What is in a folder, which names count as images or archives, and whether any of it has changed
// since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// What stands in a folder, as the folder itself tells it: no entry is opened, and only links are
// looked up.
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

// Which files count as images or archives: by name, since opening each would take long.

// .jpg .jpeg .png .bmp .ppm .pgm .tif .tiff .webp, in any case.
bool has_image_extension(std::string_view file_name);

// .zip .tar .tar.gz .tgz .tar.bz2 .tbz2 .tar.zst .tzst, in any case.
bool has_archive_extension(std::string_view file_name);

// The end of an error's advice: which those are.
constexpr const char* kImageNamesAdvice =
    "images end in .jpg, .jpeg, .png, .bmp, .ppm, .pgm, .tif, .tiff or .webp.";

// Whether a data set on disk may have changed: a number for each folder and file that was read to
// list it.
struct SourceStamp {
  std::string name;  // relative to the root; empty: the root itself
  std::int64_t stamp = 0;
  std::int64_t changed_ns = 0;  // when it last changed, by its file system; 0 for a root folder
};

// Of a folder below the root: when an entry of it last came or went. Of a file: when it changed,
// and its size. Of a root folder: its visible names, since an index may come to lie in it. Take it
// before reading what it stands for. A stamp of 0: it cannot be read.
SourceStamp stamp_of(const std::filesystem::path& root, const std::string& name);

// The names whose stamp is another now; looked up in parallel.
std::vector<std::string> changed_sources(const std::filesystem::path& root,
                                         const std::vector<SourceStamp>& stamps);

}  // namespace kiln
