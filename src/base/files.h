// Reading whole files, writing and appending files atomically, and the rule for untrusted relative
// paths. Errors name the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// The contents of a regular file. Throws std::system_error if it cannot be read, std::length_error
// if it is larger than `max_bytes`; both messages name the path.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);

// Why an untrusted path (from an archive or a list) does not name a file inside its directory: a
// clause; empty if it does.
std::string fault_of_relative_path(std::string_view path);

// A file that appears under its name only once it is complete: it is written under a temporary name
// beside it (`.kiln-tmp-<name>-<number>`), synced, read back, compared by checksum, and renamed,
// and the folder is synced. If several programs write the same file, the last one wins, with its
// whole content. A symbolic link stays, and its target is replaced; a device or pipe is refused.
// The destructor removes an uncommitted file. One thread. Every failure is Error
// kFailedToWriteOutputs naming path and reason (disk full, …).
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path final_path);
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept;
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  DurableFile& operator=(DurableFile&&) = delete;

  void write(std::string_view bytes);
  void finish();  // sync and verify; still under the temporary name
  void commit();  // finish() if needed, rename, sync the folder

  const std::filesystem::path& final_path() const { return final_path_; }

 private:
  std::filesystem::path final_path_;
  std::filesystem::path target_path_;  // where final_path_ leads
  std::filesystem::path temporary_path_;
  int descriptor_ = -1;
  bool finished_ = false;
  bool committed_ = false;
  std::uint64_t size_ = 0;
  std::uint64_t checksum_;
};

// DurableFile in one call.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

// Makes creations, renames and removals in `folder` survive a power failure. Network file systems
// that do not support it are ignored.
void sync_folder(const std::filesystem::path& folder);

// The system's message for an error number. If permissions are missing, it also names the user,
// which inside a container is seldom the one outside.
std::string system_words(int error);

// Temporary files of DurableFile, left in `folder` by a killed run.
bool is_leftover(std::string_view file_name);
void remove_leftovers(const std::filesystem::path& folder);

// FNV-1a, 64 bit, continued from `hash`. Not collision-resistant.
std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 14695981039346656037ULL);

// A file to which whole records are appended while the program runs: a reader never finds a partial
// one, even after a kill.
class AppendedFile {
 public:
  // Truncates it, unless another program is appending to it. Throws std::runtime_error, as append()
  // does.
  explicit AppendedFile(std::filesystem::path path);
  // Whether a program is appending to it.
  static bool is_in_use(const std::filesystem::path& path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // A single write; a partial one (disk full) is undone.
  void append(std::string_view piece);

 private:
  std::filesystem::path path_;
  int file_;
};

}  // namespace kiln
