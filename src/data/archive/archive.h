// Archives: tar and zip are read in place, compressed tars are unpacked first. Independent of
// images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kiln {

// A regular file that stays open, read by position from any thread. Closed by its destructor.
class OpenFile {
 public:
  OpenFile() = default;
  // Throws std::system_error naming the path; EISDIR, EINVAL for anything but a regular file.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // An unnamed file in `folder`: its space is freed with the last descriptor, however the process
  // ends.
  static OpenFile unnamed(const std::filesystem::path& folder);
  // An empty file in memory, which is freed likewise. Throws std::system_error.
  static OpenFile in_memory();

  // The same file, to be closed on its own; closed if this is. Throws std::system_error.
  OpenFile duplicate() const;

  bool is_open() const { return descriptor_ >= 0; }
  std::uint64_t size() const;

  // Returns the bytes read: fewer than `size` only at the end of the file. Throws
  // std::system_error.
  std::size_t read_at(std::uint64_t offset, char* target, std::size_t size) const;
  void append(std::string_view bytes);

 private:
  int descriptor_ = -1;
};

// Why an archive cannot be used: a clause without its name.
class ArchiveFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The location of an archive member's bytes.
struct ArchiveMember {
  enum class Packing : std::uint8_t {
    kPlain,     // `stored_size` bytes from `offset` (tar)
    kStored,    // at `offset` stands a zip local header; the bytes follow it and have `checksum`
    kDeflated,  // likewise, deflated (RFC 1951)
    kTfRecord,  // at `checksum` in the `stored_size` bytes from `offset`, a TFRecord's data
    kParts,     // likewise in what the parts of a RecordIO record from `offset` are joined to
  };

  std::uint64_t offset = 0;
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;  // CRC-32 of the zip kinds; of records, where the image begins
  std::uint16_t archive = 0;   // which archive of a dataset
  Packing packing = Packing::kPlain;
};

// Lists the members of an uncompressed tar: names and locations.
// Formats: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header"; GNU tar manual, "Basic
// Tar Format" (long names, numbers in base 256).
struct ArchiveEntry {
  std::string_view name;  // without a leading "./"; valid during the visit
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Calls `visit` for every regular file, in order; folders, links and devices are skipped.
// Checks every header's checksum, every size against the file, every name (relative, no ".."), and
// the end mark. Throws ArchiveFault, std::system_error.
void list_tar(const OpenFile& file, const std::function<void(const ArchiveEntry&)>& visit);

// Whether the first block of `file` is a header of a tar.
bool is_tar(const OpenFile& file);

// Writes tar members: POSIX.1-2017, pax, "ustar Interchange Format". No time, owner or host is
// stored, so the same images produce the same bytes.

// Header, data and padding. `name` has at most 100 bytes, `bytes` fewer than 8 GiB; InternalError
// otherwise.
std::string tar_member(std::string_view name, std::string_view bytes);

// The end mark.
std::string tar_end();

// Lists the entries of a zip from its central directory: stored or deflated, with zip64.
// Format: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
using ZipVisit = std::function<void(std::string_view name, const ArchiveMember&)>;

// Calls `visit` for every file, in the directory's order; folders and links are skipped. Checks
// names (relative, no ".."), places (inside the file, none within another) and sizes (what deflate
// can reach). Throws ArchiveFault, std::system_error. `name` is valid during the visit.
void list_zip(const OpenFile& file, const ZipVisit& visit);
void list_zip(std::string_view bytes, const ZipVisit& visit);

// Where the bytes of the member begin behind its local header, which is the first kZipHeaderBytes
// at its offset. Throws ArchiveFault where that is none.
constexpr std::size_t kZipHeaderBytes = 30;
std::uint64_t zip_data_offset(std::string_view local_header, const ArchiveMember& member);

// Compressed tars are unpacked so that their members can be read at random.

// Whether `file` begins as gzip, bzip2 or Zstandard data does.
bool is_compressed(const OpenFile& file);

// Why the folder for temporary files cannot hold it: a clause such as "'/tmp' cannot hold it: No
// space left on device".
class SpoolFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// TMPDIR, else /tmp. Throws SpoolFault where that is no folder.
std::filesystem::path temporary_folder();

// Bytes that are kept in memory, or where they are too many in the folder for temporary files.
class KeptBytes {
 public:
  explicit KeptBytes(std::uint64_t most_in_memory);

  // Throws SpoolFault; std::system_error where memory cannot hold them.
  void append(std::string_view bytes);
  std::uint64_t size() const { return size_; }
  std::uint64_t memory_bytes() const { return is_in_memory_ ? size_ : 0; }
  OpenFile take() { return std::move(file_); }

 private:
  void move_to_folder();

  const std::uint64_t most_in_memory_;
  OpenFile file_;
  std::uint64_t size_ = 0;
  bool is_in_memory_ = true;
  std::filesystem::path folder_;
};

// Unpacks `path` to an unnamed file in the folder for temporary files (TMPDIR, else /tmp), whose
// space is freed when this process ends. Throws ArchiveFault: cut off, damaged, or larger than 1
// GiB and 200 times what it was unpacked from. SpoolFault. std::system_error of the archive itself.
OpenFile unpacked(const std::filesystem::path& path);

}  // namespace kiln
