#include "data/archive/archive.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kEntrySize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr std::size_t kMaxComment = 65535;
constexpr std::uint64_t kMaxDirectoryBytes = 1ULL << 30;
constexpr std::uint16_t kEncryptedFlags = 1 | 1 << 6 | 1 << 13;
constexpr std::uint64_t kMaxDeflateRatio = 1032;  // according to "zlib Technical Details"
constexpr std::uint32_t kLinkMode = 0xA000, kModeMask = 0xF000;

// Reads a little-endian number. All supported machines are little-endian, so its bytes are copied.
template <typename Number>
Number number(std::string_view bytes, std::size_t at) {
  if (at > bytes.size() || sizeof(Number) > bytes.size() - at)
    throw ArchiveFault("its zip directory is damaged");
  Number value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A zip in a file or in memory.
struct Source {
  std::uint64_t size = 0;
  std::function<std::size_t(std::uint64_t offset, char* target, std::size_t size)> read_at;

  std::string part(std::uint64_t offset, std::uint64_t length) const {
    if (offset > size || length > size - offset)
      throw ArchiveFault("its zip directory points beyond its end");
    std::string bytes(length, '\0');
    if (read_at(offset, bytes.data(), length) < length)
      throw ArchiveFault("it was truncated while being read");
    return bytes;
  }
};

struct Directory {
  std::uint64_t count = 0, size = 0, offset = 0;
  bool is_zip64 = false;  // false: `count` is modulo 2^16
};

std::size_t find_end(std::string_view tail) {
  for (std::size_t at = tail.size() < kEndSize ? 0 : tail.size() - kEndSize + 1; at-- > 0;) {
    if (number<std::uint32_t>(tail, at) == kZipEndSignature &&
        number<std::uint16_t>(tail, at + 20) == tail.size() - kEndSize - at) {
      return at;
    }
  }
  throw ArchiveFault("it has no zip directory at its end; it is truncated or damaged");
}

Directory find_directory(const Source& zip) {
  const std::uint64_t tail_size =
      std::min<std::uint64_t>(zip.size, kMaxComment + kEndSize + kLocator64Size);
  const std::string tail = zip.part(zip.size - tail_size, tail_size);
  const std::size_t end = find_end(tail);
  if (number<std::uint16_t>(tail, end + 4) != 0)
    throw ArchiveFault("it is one part of a multi-file zip");
  Directory directory{number<std::uint16_t>(tail, end + 10), number<std::uint32_t>(tail, end + 12),
                      number<std::uint32_t>(tail, end + 16)};
  std::uint64_t end_offset = zip.size - tail_size + end;
  if (end >= kLocator64Size &&
      number<std::uint32_t>(tail, end - kLocator64Size) == kLocator64Signature) {
    end_offset = number<std::uint64_t>(tail, end - kLocator64Size + 8);
    const std::string end64 = zip.part(end_offset, kEnd64Size);
    if (number<std::uint32_t>(end64, 0) != kEnd64Signature)
      throw ArchiveFault("its zip64 end record is damaged");
    directory = {number<std::uint64_t>(end64, 32), number<std::uint64_t>(end64, 40),
                 number<std::uint64_t>(end64, 48), /*is_zip64=*/true};
  }
  if (directory.size > kMaxDirectoryBytes)
    throw ArchiveFault("its zip directory is damaged, or larger than 1 GiB");
  if (directory.size > end_offset || directory.offset > end_offset - directory.size)
    throw ArchiveFault("its zip directory lies beyond its end");
  if (directory.offset != end_offset - directory.size)
    throw ArchiveFault(
        "its zip directory does not end where its end record begins, as in zips that were joined");
  return directory;
}

struct Entry {
  std::string name;
  std::size_t name_bytes = 0;  // as stored
  ArchiveMember member;
  bool is_file = true, is_link = false;
};

// Zip64 stores only the values that do not fit in 32 bits, in an extra field and in this order.
void read_zip64_extra(std::string_view extra, ArchiveMember& member) {
  while (extra.size() >= 4) {
    const std::size_t size = number<std::uint16_t>(extra, 2);
    if (number<std::uint16_t>(extra, 0) == 1) {
      std::size_t at = 4;
      for (std::uint64_t* value : {&member.size, &member.stored_size, &member.offset}) {
        if (*value != UINT32_MAX) continue;
        *value = number<std::uint64_t>(extra.substr(0, 4 + size), at);
        at += 8;
      }
      return;
    }
    extra.remove_prefix(std::min(extra.size(), 4 + size));
  }
}

void check_entry(const Entry& entry, std::uint16_t flags, std::uint16_t method) {
  const std::string shown = "its entry " + quoted_beginning(entry.name) + " ";
  if (const std::string fault = fault_of_relative_path(entry.name); !fault.empty())
    throw ArchiveFault("it contains a bad name: " + fault);
  if ((flags & kEncryptedFlags) != 0) throw ArchiveFault(shown + "is encrypted");
  if (method != 0 && method != 8)
    throw ArchiveFault(shown + "is compressed by method " + std::to_string(method) +
                       ", but only stored and deflated entries are supported");
  const ArchiveMember& member = entry.member;
  const bool possible = method == 0 ? member.size == member.stored_size
                                    : member.size / kMaxDeflateRatio <= member.stored_size;
  if (!possible) throw ArchiveFault(shown + "has an impossible size");
}

// Whether the names of the directory's entries contain no slash.
bool has_no_slash(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t name_size = number<std::uint16_t>(bytes, 28);
    const std::size_t whole = kEntrySize + name_size + number<std::uint16_t>(bytes, 30) +
                              number<std::uint16_t>(bytes, 32);
    if (whole > bytes.size()) return false;  // parse_entry() reports it
    if (bytes.substr(kEntrySize, name_size).find('/') != bytes.npos) return false;
    bytes.remove_prefix(whole);
  }
  return true;
}

// Parses the first entry in `bytes` and removes it from there.
Entry parse_entry(std::string_view& bytes, bool has_no_slash) {
  if (number<std::uint32_t>(bytes, 0) != kZipDirectorySignature)
    throw ArchiveFault("its zip directory is damaged");
  const std::size_t name_size = number<std::uint16_t>(bytes, 28);
  const std::size_t extra_size = number<std::uint16_t>(bytes, 30);
  const std::size_t whole = kEntrySize + name_size + extra_size + number<std::uint16_t>(bytes, 32);
  if (whole > bytes.size()) throw ArchiveFault("its zip directory is damaged");
  const auto method = number<std::uint16_t>(bytes, 10);
  Entry entry;
  entry.name = bytes.substr(kEntrySize, name_size);
  entry.name_bytes = name_size;
  entry.member = {
      .offset = number<std::uint32_t>(bytes, 42),
      .stored_size = number<std::uint32_t>(bytes, 20),
      .size = number<std::uint32_t>(bytes, 24),
      .checksum = number<std::uint32_t>(bytes, 16),
      .packing = method == 0 ? ArchiveMember::Packing::kStored : ArchiveMember::Packing::kDeflated};
  read_zip64_extra(bytes.substr(kEntrySize + name_size, extra_size), entry.member);
  constexpr char kUnix = 3, kMacOs = 19;
  const bool is_unix = bytes[5] == kUnix || bytes[5] == kMacOs;
  if (!is_unix || has_no_slash) std::replace(entry.name.begin(), entry.name.end(), '\\', '/');
  const std::uint32_t mode = number<std::uint32_t>(bytes, 38) >> 16;
  entry.is_link = is_unix && (mode & kModeMask) == kLinkMode;
  entry.is_file = !entry.name.ends_with('/') && !entry.is_link;
  entry.name = normal_name(entry.name);
  if (entry.is_file || entry.is_link) check_entry(entry, number<std::uint16_t>(bytes, 8), method);
  bytes.remove_prefix(whole);
  return entry;
}

void list(const Source& zip, const MemberVisit& visit, const MemberVisit& visit_link = {}) {
  const Directory directory = find_directory(zip);
  const std::string bytes = zip.part(directory.offset, directory.size);
  std::string_view left = bytes;
  const bool no_slash = has_no_slash(bytes);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // offsets and sizes
  std::uint64_t count = 0;
  for (; !left.empty(); ++count) {
    const Entry entry = parse_entry(left, no_slash);
    if (entry.member.stored_size > directory.offset)
      throw ArchiveFault("its entry " + quoted_beginning(entry.name) +
                         " extends beyond the end of the file");
    places.emplace_back(entry.member.offset,
                        kZipHeaderBytes + entry.name_bytes + entry.member.stored_size);
    if (entry.is_file) visit(entry.name, entry.member);
    if (entry.is_link && visit_link) visit_link(entry.name, entry.member);
  }
  if (count != directory.count && (directory.is_zip64 || count % (1 << 16) != directory.count))
    throw ArchiveFault("its zip directory has " + std::to_string(count) +
                       " entries, but its end record counts " + std::to_string(directory.count));
  // A zip bomb may list the same bytes many times.
  std::sort(places.begin(), places.end());
  std::uint64_t free_from = 0;
  for (const auto& [begin, size] : places) {
    if (begin < free_from) throw ArchiveFault("two of its entries overlap");
    if (begin > directory.offset || size > directory.offset - begin)
      throw ArchiveFault("one of its entries extends beyond the end of the file");
    free_from = begin + size;
  }
}

}  // namespace

void list_zip(const OpenFile& file, const MemberVisit& visit, const MemberVisit& visit_link) {
  list({file.size(), [&](std::uint64_t offset, char* target,
                         std::size_t size) { return file.read_at(offset, target, size); }},
       visit, visit_link);
}

void list_zip(std::string_view bytes, const MemberVisit& visit) {
  list({bytes.size(), [&](std::uint64_t offset, char* target,
                          std::size_t size) { return bytes.copy(target, size, offset); }},
       visit);
}

std::uint64_t zip_data_offset(std::string_view local_header, const ArchiveMember& member) {
  if (local_header.size() < kZipHeaderBytes ||
      number<std::uint32_t>(local_header, 0) != kZipLocalSignature)
    throw ArchiveFault("the zip has no such entry at the recorded offset");
  return member.offset + kZipHeaderBytes + number<std::uint16_t>(local_header, 26) +
         number<std::uint16_t>(local_header, 28);
}

}  // namespace kiln
