// Archives, whatever they hold: tar and zip in place, compressed tars after unpacking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"

namespace kiln {

// Reads parts of a file. Parts that lie close together share one read. Use from one thread.
class FileWindow {
 public:
  // The file must stay open.
  explicit FileWindow(const OpenFile& file) : file_(file), end_(file.size()) {}

  std::uint64_t end() const { return end_; }
  // `size` bytes from `offset`, valid until the next call; fewer if they reach beyond the end.
  // Throws std::system_error.
  std::string_view bytes(std::uint64_t offset, std::size_t size);

 private:
  const OpenFile& file_;
  const std::uint64_t end_;
  std::uint64_t begin_ = 0;
  std::string window_;
};

// Why an archive cannot be used, as a clause without its name.
class ArchiveFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The location of an archive member's bytes.
struct ArchiveMember {
  enum class Packing : std::uint8_t {
    kPlain,     // `stored_size` bytes at `offset` (tar)
    kStored,    // after the zip local header at `offset`; the bytes have `checksum`
    kDeflated,  // likewise, compressed with deflate (RFC 1951)
    kTfRecord,  // from byte `checksum` of a TFRecord's data: `stored_size` bytes at `offset`
    kParts,     // likewise in the joined parts of the RecordIO record at `offset`
  };

  std::uint64_t offset = 0;
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;  // zip: CRC-32; records: where the image starts
  std::uint16_t archive = 0;   // index into a dataset's archives
  Packing packing = Packing::kPlain;
};

// The path without "." and empty parts, which lead nowhere; a slash at the beginning stays.
std::string normal_name(std::string_view path);

// `name` is as normal_name() gives it, and valid during the visit.
using MemberVisit = std::function<void(std::string_view name, const ArchiveMember&)>;

enum class LinkKind : std::uint8_t { kSymbolic, kHard, kDevice };

// A link, a device or a pipe. Valid during the visit.
struct ArchiveLink {
  std::string_view name;
  std::string_view target;  // as stored: a symbolic link's is relative to its folder
  LinkKind kind = LinkKind::kSymbolic;
};
using LinkVisit = std::function<void(const ArchiveLink&)>;

// Tars, uncompressed. Formats: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header"; GNU
// tar manual, "Basic Tar Format" (long names, numbers in base 256).

// Calls `visit` for every regular file, in order, and `visit_link`, if given, for every link and
// device; folders are skipped. Checks each header's checksum, each size against the file, each
// name (relative, no ".."), and the end mark, after which another tar may follow if `may_go_on`.
// Throws ArchiveFault, std::system_error.
void list_tar(const OpenFile& file, const MemberVisit& visit, const LinkVisit& visit_link = {},
              bool may_go_on = false);

// Whether the first block of `file` is a tar header.
bool is_tar(const OpenFile& file);

constexpr std::size_t kTarBlock = 512;

// A member's data is padded with zero bytes to a multiple of the block size.
constexpr std::uint64_t tar_padded(std::uint64_t size) {
  return (size + kTarBlock - 1) / kTarBlock * kTarBlock;
}

bool is_zero(std::string_view bytes);
// Whether a tar may begin with these bytes, of which kTarBlock are needed: a header or an end mark.
bool begins_as_tar(std::string_view first_bytes);

enum class TarKind {
  kFile,
  kLink,    // hard or symbolic
  kDevice,  // or a pipe
  kFolder,
  kExtra,   // describes the next entry; pass its data to read_extra()
  kStrange  // sparse or split
};

struct TarEntry {
  TarKind kind = TarKind::kFolder;
  char type = 0;           // as in the header
  std::uint64_t size = 0;  // of the data that follows the header
};

// Parses the headers one after another, whether the tar is read in place or as a stream.
class TarHeaders {
 public:
  // Reads the header at byte `at` of the tar. Checks its checksum and numbers. Throws ArchiveFault.
  TarEntry read(std::string_view header, std::uint64_t at);

  // Takes the data of a kExtra entry. Throws ArchiveFault.
  void read_extra(const TarEntry& entry, std::string_view data);

  // The name of an entry other than kExtra: for folders as stored, with their slash at the end, for
  // others normal_name(), checked. Call it exactly once per entry. Throws ArchiveFault, also for a
  // kStrange entry.
  std::string read_name(const TarEntry& entry, std::string_view header);

  // The target of the kLink entry whose name was taken last, as stored.
  const std::string& link_target() const { return link_target_; }

 private:
  void read_pax(char type, std::string_view data);

  std::optional<std::string> long_name_, long_target_;  // of the next entry
  std::string link_target_;
  std::optional<std::uint64_t> pax_size_;
};

// Writes a tar member: header, data and padding. Times, owners and hosts are not stored, so the
// same images give the same bytes. `name` has at most 100 bytes, `bytes` fewer than 8 GiB; throws
// InternalError otherwise.
std::string tar_member(std::string_view name, std::string_view bytes);

std::string tar_end();  // the end mark

// Zips: entries that are stored or deflated, including zip64. Format: PKWARE's APPNOTE.TXT 6.3.10,
// sections 4.3 and 4.5.3.

// Calls `visit` for every file, in the order of the directory, and `visit_link`, if given, for
// every symbolic link, whose data is its target; folders are skipped. Backslashes are separators in
// names from systems other than Unix, and where no name has a slash. Checks that the directory has
// all entries that its end record counts, and ends where that begins; names (relative, no ".."),
// locations (inside the file, not overlapping) and sizes (what deflate can reach). Throws
// ArchiveFault, std::system_error.
void list_zip(const OpenFile& file, const MemberVisit& visit, const MemberVisit& visit_link = {});
void list_zip(std::string_view bytes, const MemberVisit& visit);

// The offset of the member's bytes, which follow its local header. `local_header` is the
// kZipHeaderBytes bytes at the member's offset. Throws ArchiveFault if they are not a local header.
constexpr std::size_t kZipHeaderBytes = 30;
constexpr std::uint32_t kZipLocalSignature = 0x04034b50, kZipDirectorySignature = 0x02014b50,
                        kZipEndSignature = 0x06054b50;
std::uint64_t zip_data_offset(std::string_view local_header, const ArchiveMember& member);

// Whether a file starts like gzip, bzip2 or Zstandard data, of which four bytes are enough.
bool is_compressed(std::string_view first_bytes);
bool is_compressed(const OpenFile& file);

// Why the folder for temporary files cannot hold the data, as a clause such as "'/tmp' cannot hold
// it: No space left on device".
class SpoolFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A growing unnamed file in the folder for temporary files: TMPDIR, else /tmp. Its methods throw
// SpoolFault.
class Spool {
 public:
  Spool();

  // Leaves a tenth of the space that was free at first.
  void append(std::string_view bytes);
  std::uint64_t size() const { return size_; }
  OpenFile take() { return std::move(file_); }

 private:
  [[noreturn]] void fail(const std::error_code& code) const;

  std::filesystem::path folder_;
  OpenFile file_;
  std::uint64_t size_ = 0, limit_ = 0;
};

// Unpacks `path` to a Spool, so that members of a compressed tar can be accessed at random. Throws
// ArchiveFault if the archive is truncated, damaged, or unpacks to more than 1 GiB and 200 times
// its size; SpoolFault; std::system_error for the archive itself.
OpenFile unpacked(const std::filesystem::path& path);

}  // namespace kiln
