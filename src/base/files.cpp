#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {
namespace {

constexpr std::size_t kShownBytes = 300;  // of a path in an error message
constexpr std::string_view kTemporaryPrefix = ".kiln-tmp-";
constexpr std::size_t kMaxNameBytes = 200;  // of the original name; file systems allow 255

constexpr std::uint64_t kMaxWithoutSize = 1 << 20;

[[noreturn]] void fail_to_read(int error, const std::filesystem::path& path) {
  throw std::system_error(error, std::generic_category(), "'" + path.string() + "'");
}

// False: errno says why.
bool try_to_write(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// True if another process holds the lock; otherwise takes it until `file`
// is closed. Always false for devices and on file systems without locks.
bool is_taken(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
         ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// O_NONBLOCK makes opening a pipe without a reader fail instead of wait. Links to devices and
// pipes, such as /dev/stdout, are followed; any other link is replaced by a new file.
int open_to_append(const std::filesystem::path& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC;
  const int file = ::open(path.c_str(), kFlags | O_NOFOLLOW, 0666);
  if (file >= 0 || errno != ELOOP) return file;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return ::open(path.c_str(), kFlags & ~O_CREAT);
  if (::unlink(path.c_str()) != 0) return -1;
  return ::open(path.c_str(), kFlags | O_EXCL, 0666);
}

// Returns the temporary name of a DurableFile, without the random number at its end.
std::string temporary_prefix(const std::filesystem::path& path) {
  return std::string(kTemporaryPrefix) + path.filename().string().substr(0, kMaxNameBytes) + "-";
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

// With O_NONBLOCK, a named pipe is rejected; without it, open() would wait for a writer.
OpenFile::OpenFile(const std::filesystem::path& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat info {};
  if (!is_open() || ::fstat(descriptor_.number(), &info) != 0) fail_to_read(errno, path);
  if (!S_ISREG(info.st_mode)) fail_to_read(S_ISDIR(info.st_mode) ? EISDIR : EINVAL, path);
}

OpenFile OpenFile::unnamed(const std::filesystem::path& folder) {
  OpenFile file;
  file.descriptor_ = Descriptor(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.is_open()) {  // NFS, and overlays before Linux 6.1, need a name for a moment
    std::string name = (folder / "kiln-XXXXXX").string();
    file.descriptor_ = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (!file.is_open()) fail_to_read(errno, folder);
    ::unlink(name.c_str());
  }
  return file;
}

OpenFile OpenFile::duplicate() const {
  OpenFile file;
  if (!is_open()) return file;
  file.descriptor_ = Descriptor(::fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0));
  if (!file.is_open()) fail(errno);
  return file;
}

std::filesystem::path OpenFile::path() const {
  if (!is_open()) return {};
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor_.number());
}

void OpenFile::fail(int error) const {
  std::error_code ignored;
  fail_to_read(error, std::filesystem::read_symlink(path(), ignored));
}

std::uint64_t OpenFile::size() const {
  struct stat info {};
  if (::fstat(descriptor_.number(), &info) != 0) fail(errno);
  return static_cast<std::uint64_t>(info.st_size);
}

std::size_t OpenFile::read_at(std::uint64_t offset, char* target, std::size_t size) const {
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got = ::pread(descriptor_.number(), target + filled, size - filled,
                                static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

std::string OpenFile::bytes_at(std::uint64_t offset, std::size_t size) const {
  std::string bytes(size, '\0');
  bytes.resize(read_at(offset, bytes.data(), size));
  return bytes;
}

void OpenFile::append(std::string_view bytes) {
  if (!try_to_write(descriptor_.number(), bytes)) fail(errno);
}

std::string why_unreadable(const std::system_error& fault) {
  const int error = fault.code().value();
  if (error == EISDIR) return "it is a folder, not a file";
  return error == EINVAL ? "it is a pipe or a device, not a regular file" : system_words(error);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const OpenFile file(path);
  std::uint64_t size = file.size();
  std::string bytes;
  if (size == 0) {  // empty, or one of the kernel's own files (/proc)
    max_bytes = std::min(max_bytes, kMaxWithoutSize);
    bytes = file.bytes_at(0, max_bytes + 1);
    size = bytes.size();
  }
  if (size > max_bytes)
    throw std::length_error("'" + path.string() + "' has " + std::to_string(size) +
                            " bytes, more than the limit of " + std::to_string(max_bytes));
  return bytes.empty() ? file.bytes_at(0, size) : bytes;
}

std::string first_bytes(const std::filesystem::path& path, std::size_t count) {
  return OpenFile(path).bytes_at(0, count);
}

void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::string_view)>& take) {
  const OpenFile file(path);
  std::string piece(1 << 20, '\0');
  std::uint64_t begin = 0;
  while (const std::size_t size = file.read_at(begin, piece.data(), piece.size())) {
    take({piece.data(), size});
    begin += size;
  }
}

void fail_to_write(const std::filesystem::path& path, int error) {
  std::string advice = "Check the permissions of the output and that its device is healthy.";
  if (error == ENOSPC || error == EDQUOT)
    advice = "Free some space there or choose another output.";
  if (error == EFBIG) advice = "Raise that limit, or choose an output on another file system.";
  if (error == EROFS) advice = "It is read-only: mount it writable or choose another output.";
  if (error == EISDIR) advice = "Give the name of a file.";
  if (error == ENOENT) advice = "Create the folder that is to hold it, or choose another output.";
  if (error == ENOTDIR) advice = "A file is where a folder should be: choose another output.";
  if (error == ENOSYS || error == ENOTSUP)
    advice = "Its file system, such as a mounted bucket, lacks this: choose an output on a disk.";
  if (error == ENAMETOOLONG) advice = "Choose an output with a shorter path.";
  throw Error(ErrorCode::kFailedToWriteOutputs,
              quoted_path(path) + " cannot be written: " + system_words(error) + ". " + advice);
}

std::string quoted_path(const std::filesystem::path& path) {
  const std::string text = without_secrets(path.string());
  return "'" + (text.size() <= kShownBytes ? text : cut_to_bytes(text, kShownBytes) + "…") + "'";
}

std::string system_words(int error) {
  std::string words = std::strerror(error);
  if (error == EACCES || error == EPERM) words += " for user " + std::to_string(::geteuid());
  rlimit limit{};
  if (error == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    words += " for the file size limit (ulimit -f)";
  return words;
}

std::string fault_of_relative_path(std::string_view path) {
  constexpr std::size_t kMaxBytes = 4096;
  const auto shown = [&] { return "the path '" + std::string(path.substr(0, 200)) + "' "; };
  if (path.empty()) return "\"file_name\" is empty";
  if (path.size() > kMaxBytes) return shown() + "… is longer than 4096 bytes";
  if (path.find('\0') != path.npos) return "\"file_name\" contains a zero byte";
  if (path.front() == '/') return shown() + "is absolute, but must be inside the directory";
  std::string_view part;
  for (std::string_view rest = path;;) {
    const std::size_t end = rest.find('/');
    part = rest.substr(0, end);
    if (part == "..") return shown() + "contains '..', but must be inside the directory";
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  return part.empty() || part == "." ? shown() + "is a folder" : "";
}

bool is_inside(const std::filesystem::path& place, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), place.begin(), place.end()).first ==
         folder.end();
}

std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& fault) {
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, fault), end; !fault && entry != end;
       entry.increment(fault))
    names.push_back(entry->path().filename().string());
  return names;
}

DurableFile::DurableFile(std::filesystem::path final_path) : final_path_(std::move(final_path)) {
  std::error_code fault;
  // Nor is any link to a descriptor, such as /dev/stdout, replaced.
  if (std::filesystem::read_symlink(final_path_, fault).string().starts_with("/proc/") ||
      std::filesystem::is_other(std::filesystem::status(final_path_, fault)))
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "'" + final_path_.string() +
                    "' cannot be written: it is a device, pipe or socket, which this output would "
                    "replace. Choose a file.");
  const std::string name = temporary_prefix(final_path_);
  do {
    std::uint32_t number;
    if (::getentropy(&number, sizeof number) != 0) fail_to_write(final_path_, errno);
    temporary_path_ = final_path_.parent_path() / (name + std::to_string(number));
    descriptor_ = Descriptor(::open(temporary_path_.c_str(),
                                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  } while (descriptor_.number() < 0 && errno == EEXIST);
  if (descriptor_.number() < 0) fail_to_write(final_path_, errno);
}

// The temporary path of a file that was moved away is empty, so its destructor removes nothing.
DurableFile::DurableFile(DurableFile&& other) noexcept = default;

DurableFile::~DurableFile() {
  if (!committed_) ::unlink(temporary_path_.c_str());
}

void rehearse_write(const std::filesystem::path& path) {
  DurableFile probe = complete_file(path, "probe");
  const std::string renamed = probe.temporary_path().string() + "0";  // a temporary name, too
  if (::rename(probe.temporary_path().c_str(), renamed.c_str()) != 0) fail_to_write(path, errno);
  probe.release();
  ::unlink(renamed.c_str());
}

void require_writable(const std::filesystem::path& path) {
  if (is_folder(path)) fail_to_write(path, EISDIR);
  rehearse_write(path);
}

void DurableFile::write(std::string_view bytes) {
  constexpr std::uint64_t kPiece = 16 << 20;  // the disk begins with it, so finish() waits less
  write_all(descriptor_.number(), bytes, final_path_);
  if (size_ / kPiece != (size_ + bytes.size()) / kPiece)
    ::sync_file_range(descriptor_.number(), 0, 0, SYNC_FILE_RANGE_WRITE);
  size_ += bytes.size();
  checksum_.add(bytes);
}

void DurableFile::finish() {
  if (finished_) return;
  if (::fsync(descriptor_.number()) != 0) fail_to_write(final_path_, errno);
  if (::close(descriptor_.release()) != 0) fail_to_write(final_path_, errno);
  std::uint64_t size = 0;
  ContentHash checksum(0);
  try {
    read_in_pieces(temporary_path_, [&](std::string_view piece) {
      checksum.add(piece);
      size += piece.size();
    });
  } catch (const std::system_error& fault) {
    fail_to_write(final_path_, fault.code().value());
  }
  if (size != size_ || checksum.value() != checksum_.value()) fail_to_write(final_path_, EIO);
  finished_ = true;
}

void DurableFile::commit() {
  finish();
  if (::rename(temporary_path_.c_str(), final_path_.c_str()) != 0)
    fail_to_write(final_path_, errno);
  committed_ = true;
  sync_folder(final_path_.parent_path());
}

void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path) {
  if (!try_to_write(descriptor, bytes)) fail_to_write(path, errno);
}

DurableFile complete_file(const std::filesystem::path& path, std::string_view bytes) {
  DurableFile file(path);
  file.write(bytes);
  file.finish();
  return file;
}

void write_file_durably(const std::filesystem::path& path, std::string_view bytes) {
  complete_file(path, bytes).commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path place = folder.empty() ? "." : folder;
  const Descriptor opened(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // If it is writable but not readable, it cannot be synced.
  if (opened.number() < 0 && errno == EACCES) return;
  if (opened.number() < 0) fail_to_write(place, errno);
  if (::fsync(opened.number()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail_to_write(place, errno);
}

std::string did_you_mean_path(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  constexpr std::size_t kMaxNames = 10'000;
  if (is_there(path)) return "";
  fs::path found;
  for (const fs::path& part : path) {
    if (part.empty()) continue;  // from a trailing slash
    if (is_there(found / part)) {
      found /= part;
      continue;
    }
    std::vector<std::string> names = names_in(found.empty() ? "." : found);
    names.resize(std::min(names.size(), kMaxNames));
    std::sort(names.begin(), names.end());
    const std::string name = closest(part.string(), names);
    if (name.empty()) return "";
    found /= name;
  }
  if (!is_there(found)) return "";  // a dangling link
  return " Did you mean '" + found.string() + "'?";
}

void make_folders(const std::filesystem::path& folder) {
  struct stat info {};
  if (folder.empty() || (::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode))) return;
  if (info.st_mode != 0) fail_to_write(folder, ENOTDIR);
  if (errno != ENOENT) fail_to_write(folder, errno);
  make_folders(folder.parent_path());
  if (!folder.has_filename()) return;  // a trailing slash
  if (::mkdir(folder.c_str(), 0777) == 0) return sync_folder(folder.parent_path());
  const int error = errno;
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) fail_to_write(folder, error);
}

bool is_temporary_name(std::string_view file_name) {
  const std::size_t dash = file_name.rfind('-');
  const std::string_view number = file_name.substr(std::min(dash, file_name.size() - 1) + 1);
  return file_name.starts_with(kTemporaryPrefix) && dash > kTemporaryPrefix.size() &&
         !number.empty() && number.find_first_not_of("0123456789") == number.npos;
}

void remove_leftovers(const std::filesystem::path& folder, std::string_view prefix) {
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_wanted =
        prefix.empty() || (name.starts_with(prefix) && name.rfind('-') + 1 == prefix.size());
    if (is_wanted && is_temporary_name(name) &&
        std::filesystem::is_regular_file(entry.symlink_status()))
      leftovers.push_back(entry.path());
  }
  for (const auto& leftover : leftovers)
    if (::unlink(leftover.c_str()) != 0 && errno != ENOENT) fail_to_write(leftover, errno);
}

void remove_leftovers_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  remove_leftovers(folder.empty() ? "." : folder, temporary_prefix(file));
}

TemporaryFolder::TemporaryFolder(const std::string& name) {
  std::string made = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
  if (::mkdtemp(made.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), made);
  path_ = made;
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_all_quietly(path_);
}

std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code failure;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failure);
  std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, failure);
  if (failure) canonical = absolute.lexically_normal();
  return canonical.has_filename() ? canonical : canonical.parent_path();
}

std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash) {
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 1099511628211ULL;
  }
  return hash;
}

AppendedFile::AppendedFile(std::filesystem::path path, Begin begin)
    : path_(std::move(path)), file_(open_to_append(path_)) {
  if (file_.number() < 0) fail_to_write(path_, errno);
  if (is_taken(file_.number()))
    throw Error(ErrorCode::kFailedToWriteOutputs,
                quoted_path(path_) + " is in use by another run, which is writing to it. Wait " +
                    "until it ends, or choose another output.");
  if (begin == Begin::kAnew && ::ftruncate(file_.number(), 0) != 0 && errno != EINVAL)
    fail_to_write(path_, errno);  // EINVAL: a device
}

bool AppendedFile::is_abandoned(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  return ::fstat(file.number(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::flock(file.number(), LOCK_SH | LOCK_NB) == 0;
}

void AppendedFile::append(std::string_view piece) {
  const int file = file_.number();
  const off_t before = ::lseek(file, 0, SEEK_END);
  struct stat info {};
  if (::fstat(file, &info) == 0 && info.st_nlink == 0)
    throw Error(ErrorCode::kFailedToWriteOutputs,
                quoted_path(path_) + " was removed while being written. Start again.");
  try {
    write_all(file, piece, path_);
  } catch (const Error&) {
    if (::ftruncate(file, before) == 0) ::lseek(file, before, SEEK_SET);
    throw;
  }
}

LockResult lock_soon(int descriptor, const std::function<void()>& waiting, double seconds) {
  const Stopwatch watch;
  for (bool is_first = true; ::flock(descriptor, LOCK_EX | LOCK_NB) != 0; is_first = false) {
    if (errno != EWOULDBLOCK && errno != EINTR) return LockResult::kNoLocks;
    if (watch.seconds() > seconds) return LockResult::kInUse;
    if (is_first && waiting) waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return LockResult::kTaken;
}

}  // namespace kiln
