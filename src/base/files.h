// Reading whole files, writing and appending to files atomically, what is at a path, temporary
// folders, and the check for untrusted relative paths. Errors name the path and the system's
// reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/content_hash.h"

namespace kiln {

// The contents of a regular file. Throws std::system_error if it cannot be read, std::length_error
// if it is larger than `max_bytes`; both messages name the path.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);

// The reason, for messages, in a system_error thrown by read_file() or first_bytes().
std::string why_unreadable(const std::system_error& fault);

// The rule for all code that reads untrusted files:
//
// Nothing is allocated or parsed that the file's own size does not justify, within stated limits.
//
// So a reader checks the first bytes before it reads the rest; it compares every size and count
// that a file declares with the bytes that are actually there before it allocates memory; and its
// running time is proportional to those bytes. Where a few bytes can stand for much more (pixels,
// references, JSON), a constant next to the reader sets the limit. tests/peak_memory.h measures
// each reader in a separate process.

// The first `count` bytes of a regular file, or all of them if it is shorter. Throws
// std::system_error, as read_file() does.
std::string first_bytes(const std::filesystem::path& path, std::size_t count);

// Text files that people write. Some editors begin them with a byte-order mark (U+FEFF in UTF-8),
// which is no part of the text: every reader of such a file calls one of these.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

// read_file() without the mark.
inline std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return std::string(without_byte_order_mark(read_file(path, max_bytes)));
}

// read_text(), but passes why that fails to `fail`, which throws, as a clause: "cannot be read
// (…)"; `too_large` for more than `max_bytes`.
template <typename Fail>
std::string read_text_or(const std::filesystem::path& path, std::uint64_t max_bytes,
                         const std::string& too_large, Fail&& fail) {
  try {
    return read_text(path, max_bytes);
  } catch (const std::system_error& fault) {
    fail("cannot be read (" + fault.code().message() + ")");
  } catch (const std::length_error&) {
    fail(too_large);
  }
  return {};
}

// Passes the bytes of a regular file to `take`, piece by piece. Throws as read_file() does.
void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::string_view)>& take);

// Why an untrusted path (from an archive or a list) does not name a file inside its directory, as a
// clause; empty if it does.
std::string fault_of_relative_path(std::string_view path);

// What is at a path: where links lead, or what is there itself; `none`: the system does not say.
inline std::filesystem::file_type type_at(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type();
}
inline std::filesystem::file_type type_of_entry(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type();
}
// Where links lead; false also if the system does not say.
inline bool is_there(const std::filesystem::path& path) {
  return std::filesystem::exists(std::filesystem::file_status(type_at(path)));
}
inline bool is_folder(const std::filesystem::path& path) {
  return type_at(path) == std::filesystem::file_type::directory;
}
inline bool is_file(const std::filesystem::path& path) {
  return type_at(path) == std::filesystem::file_type::regular;
}

// Whether `place` is `folder` or inside it, by their parts. Both are canonical.
bool is_inside(const std::filesystem::path& place, const std::filesystem::path& folder);

// The names in `folder`, in no order; those before the fault, if there is one.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& fault);
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  return names_in(folder, ignored);
}

// Removes a file or an empty folder, or a folder with all in it, if that can be.
inline void remove_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}
inline void remove_all_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// The absolute path without links, as far as it exists, and without a slash at its end.
std::filesystem::path resolved(const std::filesystem::path& path);

// Names that begin with a dot (including leftovers) and lost+found do not count as contents.
inline bool is_ignored_name(std::string_view name) {
  return name.starts_with('.') || name == "lost+found";
}

// An open file or folder; at the end it is closed, which releases its lock.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int number() const { return number_; }  // negative: none
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// An open regular file that any thread can read at any position. Methods throw std::system_error,
// which names the file.
class OpenFile {
 public:
  OpenFile() = default;
  // EISDIR or EINVAL for anything but a regular file.
  explicit OpenFile(const std::filesystem::path& path);
  // An unnamed file in `folder`, whose space is freed when the last descriptor closes, however the
  // process ends.
  static OpenFile unnamed(const std::filesystem::path& folder);

  // Another descriptor of the same file, closed independently; closed if this one is.
  OpenFile duplicate() const;

  bool is_open() const { return descriptor_.number() >= 0; }
  // Where processes of this user on this host can open the file again while it is open here, even
  // if it has no name; empty if it is not open.
  std::filesystem::path path() const;
  std::uint64_t size() const;

  // Returns the number of bytes read: fewer than `size` only at the end of the file.
  std::size_t read_at(std::uint64_t offset, char* target, std::size_t size) const;
  std::string bytes_at(std::uint64_t offset, std::size_t size) const;
  void append(std::string_view bytes);

 private:
  [[noreturn]] void fail(int error) const;

  Descriptor descriptor_;
};

// A lock that the kernel keeps, so that a killed program leaves none.
enum class LockResult {
  kTaken,
  kInUse,    // another program holds it
  kNoLocks,  // the file system has no locks
};

// Locks an open file or folder until its descriptor is closed. If another program holds the lock,
// calls `waiting` and then waits some seconds: the ranks of a job whose launcher was killed end a
// moment later, so a job that is restarted at once finds them still running.
LockResult lock_soon(int descriptor, const std::function<void()>& waiting, double seconds = 3);

// A file that appears under its name only when it is complete. It is written next to its final path
// under a temporary name (`.kiln-tmp-<name>-<number>`), synced, read back and verified by checksum,
// then renamed, and the folder is synced. If several programs write the same file, the last one
// wins, and the file is always whole. A symbolic link is replaced, and its target is left alone; a
// device, a pipe, or a link to a descriptor such as /dev/stdout is refused. The destructor removes
// a file that was not committed. The mode is 0666 minus the umask. Use from one thread. Every
// failure is Error kFailedToWriteOutputs naming the path and the reason (disk full, …).
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
  // Leaves a finished file under its temporary name, for someone else to rename.
  void release() noexcept { committed_ = true; }

  const std::filesystem::path& final_path() const { return final_path_; }
  const std::filesystem::path& temporary_path() const { return temporary_path_; }

 private:
  std::filesystem::path final_path_;
  std::filesystem::path temporary_path_;
  Descriptor descriptor_;
  bool finished_ = false;
  bool committed_ = false;
  std::uint64_t size_ = 0;
  ContentHash checksum_{0};
};

// A DurableFile of these bytes, which is finished.
DurableFile complete_file(const std::filesystem::path& path, std::string_view bytes);

// Writes to an open file; `path` is for the Error kFailedToWriteOutputs.
void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path);

// DurableFile in one call.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

// For work whose result is written much later: writes a DurableFile for this path and renames it,
// which some mounted buckets cannot, but to a temporary name; leaves nothing behind. Throws Error
// kFailedToWriteOutputs.
void rehearse_write(const std::filesystem::path& path);

// The same; fails also if the path is a folder.
void require_writable(const std::filesystem::path& path);

// Throws the Error kFailedToWriteOutputs that says why (`error` is an errno) `path` could not be
// written.
[[noreturn]] void fail_to_write(const std::filesystem::path& path, int error);

// Makes files created, renamed or removed in `folder` survive a power failure. Ignored on file
// systems that do not support it (EINVAL, ENOTSUP); any other failure is Error
// kFailedToWriteOutputs.
void sync_folder(const std::filesystem::path& folder);

// Creates `folder` and its missing parents, and syncs each into its own parent. Throws Error
// kFailedToWriteOutputs naming the folder and the reason.
void make_folders(const std::filesystem::path& folder);

// The path in quotes, for messages; a very long path is cut off at the end.
std::string quoted_path(const std::filesystem::path& path);

// The system's message for an errno. If permissions are missing, also names the user who lacks
// them: inside a container this is often not the user outside.
std::string system_words(int error);

// " Did you mean 'small/train'?" if `path` does not exist but a similar path does; otherwise empty.
std::string did_you_mean_path(const std::filesystem::path& path);

// Whether this can be the temporary name of a DurableFile.
bool is_temporary_name(std::string_view file_name);
// Removes regular files with such names, which killed programs left in `folder`: all of them, or
// those whose name is `prefix` and a number. Call it only while no other program writes them.
void remove_leftovers(const std::filesystem::path& folder, std::string_view prefix = {});
// The same, only for temporary names of this file. Call it only while no other program writes the
// file.
void remove_leftovers_of(const std::filesystem::path& file);

// A new folder `<name>-XXXXXX` in the system's folder for temporary files; removed at the end, with
// what is in it. Throws std::system_error if it cannot be made.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(other.release()) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path release() { return std::exchange(path_, {}); }  // it stays

 private:
  std::filesystem::path path_;
};

// 64-bit FNV-1a, continued from `hash`. Not collision-resistant.
std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 14695981039346656037ULL);

// A file that grows by whole pieces while the program runs, so that a concurrent reader, or anyone
// looking after a crash, never finds half a piece.
class AppendedFile {
 public:
  enum class Begin { kAnew, kAtEnd };
  // Truncates the file, or appends at its end; fails if another program is appending to it. A
  // symbolic link to a regular file is replaced by a new file. Throws Error kFailedToWriteOutputs,
  // as append() does.
  explicit AppendedFile(std::filesystem::path path, Begin begin = Begin::kAnew);
  // Whether it is certain that no program is appending to the file; false where files cannot be
  // locked. Sees only programs on this host: network file systems do not reliably report others.
  static bool is_abandoned(const std::filesystem::path& path);

  // Writes with a single call, if the system takes all; a partial write (disk full) is undone.
  void append(std::string_view piece);

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace kiln
