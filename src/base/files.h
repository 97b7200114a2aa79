// Reading whole files, writing and appending files atomically, and the rule for untrusted relative
// paths. Errors name the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/content_hash.h"

namespace kiln {

// The contents of a regular file. Throws std::system_error if it cannot be read, std::length_error
// if it is larger than `max_bytes`; both messages name the path.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);

// Of a system_error that read_file() or first_bytes() threw: the reason, for messages.
std::string why_unreadable(const std::system_error& fault);

// The one rule for everything that reads files from strangers:
//
//   Nothing is allocated or parsed that the file's own size cannot justify, within stated limits.
//
// So a reader looks at the first bytes before it reads the rest; it compares each size and count
// that a file declares with the bytes that are there before it allocates memory for them; and its
// time grows in proportion to these bytes. Where few bytes may stand for much (pixels, references,
// JSON), a constant beside the reader limits how much. tests/peak_memory.h measures readers in
// processes of their own.

// At most the first `count` bytes of a regular file. Throws std::system_error as read_file() does.
std::string first_bytes(const std::filesystem::path& path, std::size_t count);

// Why an untrusted path (from an archive or a list) does not name a file inside its directory: a
// clause; empty if it does.
std::string fault_of_relative_path(std::string_view path);

// A file that does not exist under its name until it is complete: written to a name of its own
// beside it (`.kiln-tmp-<name>-<number>`), synced, read back and compared by checksum, then
// renamed, and the folder synced. Of programs that write one file at once the last one's stands,
// whole. A link is replaced, and what it leads to is left alone; a device or pipe is refused, and
// so is a link to a descriptor, such as /dev/stdout. The destructor removes what was not committed.
// Mode 0666 without the umask. One thread. Every failure is Error kFailedToWriteOutputs naming path
// and reason (disk full, …).
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
  // Leaves a finished file under its temporary name, for another to rename.
  void release() noexcept { committed_ = true; }

  const std::filesystem::path& final_path() const { return final_path_; }
  const std::filesystem::path& temporary_path() const { return temporary_path_; }

 private:
  std::filesystem::path final_path_;
  std::filesystem::path temporary_path_;
  int descriptor_ = -1;
  bool finished_ = false;
  bool committed_ = false;
  std::uint64_t size_ = 0;
  ContentHash checksum_{0};
};

// DurableFile in one call.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

// Throws Error kFailedToWriteOutputs if no DurableFile of this path could be begun, or if it is a
// folder: for work whose result is written much later.
void require_writable(const std::filesystem::path& path);

// Throws Error kFailedToWriteOutputs: `error`, an errno, kept `path` from being written.
[[noreturn]] void fail_to_write(const std::filesystem::path& path, int error);

// So that what was made, renamed or removed in `folder` survives a power cut. File systems that
// cannot do this (EINVAL, ENOTSUP) are ignored; any other failure is Error kFailedToWriteOutputs.
void sync_folder(const std::filesystem::path& folder);

// Makes `folder` and its missing parents, each synced into its own parent. Error
// kFailedToWriteOutputs naming the folder and the reason.
void make_folders(const std::filesystem::path& folder);

// In quotes, for messages; of a very long path only the beginning.
std::string quoted_path(const std::filesystem::path& path);

// The system's words for the error number; where permissions are lacking, with the user who lacks
// them: inside a container that is seldom the one outside.
std::string system_words(int error);

// " Did you mean 'small/train'?" if `path` does not exist, but something close to it does; else
// an empty text.
std::string did_you_mean_path(const std::filesystem::path& path);

// Whether a DurableFile may have that temporary name.
bool is_temporary_name(std::string_view file_name);
// Removes regular files of such names, which killed programs left in `folder`. Only while no other
// program writes into it.
void remove_leftovers(const std::filesystem::path& folder);
// The same for the names that a DurableFile of this path may have had. Only while no other program
// writes that file.
void remove_leftovers_of(const std::filesystem::path& file);

// FNV-1a, 64 bit, continued from `hash`. Not collision-resistant.
std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 14695981039346656037ULL);

// A file that grows by whole pieces while the program runs, so that a reader, or whoever looks
// after a kill, finds no half of one.
class AppendedFile {
 public:
  enum class Begin { kAnew, kAtEnd };
  // Begins it anew or at its end, unless another program appends to it. A link to a file is
  // replaced. Throws std::runtime_error, as append() does.
  explicit AppendedFile(std::filesystem::path path, Begin begin = Begin::kAnew);
  // Whether a program is appending to it.
  static bool is_in_use(const std::filesystem::path& path);
  // Whether certainly none does. Both are false where files have no locks. Only of a program on
  // this host: network file systems do not tell reliably of others.
  static bool is_abandoned(const std::filesystem::path& path);
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
