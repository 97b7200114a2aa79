#include "store/zip_archive.h"

#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "store/byte_reader.h"

namespace kiln {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kDirectorySignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint64_t kLocalHeaderSize = 30;
constexpr std::uint64_t kDirectoryHeaderSize = 46;
constexpr std::uint64_t kEndSize = 22;
constexpr std::uint64_t kLocator64Size = 20;
constexpr std::uint64_t kMaxComment = 65535;
constexpr std::uint64_t kMaxEntries = 100000;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kEncryptedFlags = 1 | 1 << 6 | 1 << 13;
constexpr std::size_t kAlignment = 64;

struct Directory {
  std::uint64_t count = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

struct Header {
  std::string_view name;
  std::uint32_t checksum = 0;
  std::uint64_t size = 0;
  std::uint64_t local_offset = 0;
};

struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::string quoted(std::string_view name) {
  return "'" + std::string(name.substr(0, 200)) + "'";
}

std::uint32_t checksum_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

std::uint64_t find_end(std::string_view bytes) {
  if (bytes.size() >= kEndSize) {
    const std::uint64_t last = bytes.size() - kEndSize;
    const std::uint64_t first = last > kMaxComment ? last - kMaxComment : 0;
    for (std::uint64_t at = last + 1; at-- > first;) {
      if (little_endian<std::uint32_t>(bytes, at, "the zip end record") != kEndSignature) continue;
      if (little_endian<std::uint16_t>(bytes, at + 20, "the zip end record") == last - at)
        return at;
    }
  }
  throw FormatFault("it has no zip directory at its end; the file is cut off or damaged");
}

Directory read_directory64(std::string_view bytes, std::uint64_t locator) {
  const char* what = "the zip64 end record";
  const auto at = little_endian<std::uint64_t>(bytes, locator + 8, what);
  if (little_endian<std::uint32_t>(bytes, at, what) != kEnd64Signature) {
    throw FormatFault("its zip64 locator does not point to an end record; the file is damaged");
  }
  return {little_endian<std::uint64_t>(bytes, at + 32, what),
          little_endian<std::uint64_t>(bytes, at + 40, what),
          little_endian<std::uint64_t>(bytes, at + 48, what)};
}

Directory read_directory(std::string_view bytes) {
  const std::uint64_t end = find_end(bytes);
  const char* what = "the zip end record";
  Directory directory{little_endian<std::uint16_t>(bytes, end + 10, what),
                      little_endian<std::uint32_t>(bytes, end + 12, what),
                      little_endian<std::uint32_t>(bytes, end + 16, what)};
  if (little_endian<std::uint16_t>(bytes, end + 4, what) != 0) {
    throw FormatFault("it is one part of a zip that was split over several files");
  }
  if (end >= kLocator64Size &&
      little_endian<std::uint32_t>(bytes, end - kLocator64Size, what) == kLocator64Signature) {
    directory = read_directory64(bytes, end - kLocator64Size);
  }
  if (directory.count > kMaxEntries) {
    throw FormatFault("it declares " + std::to_string(directory.count) +
                      " zip entries, more than the limit of " + std::to_string(kMaxEntries));
  }
  range_of(bytes, directory.offset, directory.size, "its zip directory");
  return directory;
}

// Zip64 keeps the values that do not fit 32 bits in an extra field, in this order, and only those.
void read_zip64_extra(std::string_view extra, std::uint64_t& size, std::uint64_t& stored_size,
                      std::uint64_t& local_offset) {
  const char* what = "a zip extra field";
  for (std::uint64_t at = 0; at + 4 <= extra.size();) {
    const auto id = little_endian<std::uint16_t>(extra, at, what);
    const auto length = little_endian<std::uint16_t>(extra, at + 2, what);
    const std::string_view body = range_of(extra, at + 4, length, what);
    at += 4 + length;
    if (id != kZip64Extra) continue;
    std::uint64_t next = 0;
    for (std::uint64_t* value : {&size, &stored_size, &local_offset}) {
      if (*value != UINT32_MAX) continue;
      *value = little_endian<std::uint64_t>(body, next, what);
      next += 8;
    }
  }
}

Header read_header(std::string_view bytes, std::uint64_t& at) {
  const char* what = "a zip directory entry";
  if (little_endian<std::uint32_t>(bytes, at, what) != kDirectorySignature) {
    throw FormatFault("its zip directory is damaged at offset " + std::to_string(at));
  }
  const auto name_size = little_endian<std::uint16_t>(bytes, at + 28, what);
  const auto extra_size = little_endian<std::uint16_t>(bytes, at + 30, what);
  const auto comment_size = little_endian<std::uint16_t>(bytes, at + 32, what);
  Header header;
  header.name = range_of(bytes, at + kDirectoryHeaderSize, name_size, what);
  header.checksum = little_endian<std::uint32_t>(bytes, at + 16, what);
  std::uint64_t stored_size = little_endian<std::uint32_t>(bytes, at + 20, what);
  header.size = little_endian<std::uint32_t>(bytes, at + 24, what);
  header.local_offset = little_endian<std::uint32_t>(bytes, at + 42, what);
  read_zip64_extra(range_of(bytes, at + kDirectoryHeaderSize + name_size, extra_size, what),
                   header.size, stored_size, header.local_offset);
  const auto flags = little_endian<std::uint16_t>(bytes, at + 8, what);
  const auto method = little_endian<std::uint16_t>(bytes, at + 10, what);
  if (flags & kEncryptedFlags) {
    throw FormatFault("its zip entry " + quoted(header.name) + " is encrypted");
  }
  if (method != 0) {
    throw FormatFault("its zip entry " + quoted(header.name) + " is compressed (method " +
                      std::to_string(method) + "), which torch.save never does");
  }
  if (stored_size != header.size) {
    throw FormatFault("its zip entry " + quoted(header.name) + " has two different sizes");
  }
  at += kDirectoryHeaderSize + name_size + extra_size + comment_size;
  return header;
}

// Where header and data of an entry lie; the data are the last `header.size` bytes of the span.
Span locate(std::string_view bytes, const Header& header) {
  const char* what = "a zip entry's header";
  const std::uint64_t at = header.local_offset;
  range_of(bytes, at, kLocalHeaderSize, what);
  if (little_endian<std::uint32_t>(bytes, at, what) != kLocalSignature) {
    throw FormatFault("its zip entry " + quoted(header.name) + " is not where the directory says");
  }
  const auto name_size = little_endian<std::uint16_t>(bytes, at + 26, what);
  const auto extra_size = little_endian<std::uint16_t>(bytes, at + 28, what);
  if (range_of(bytes, at + kLocalHeaderSize, name_size, what) != header.name) {
    throw FormatFault("its zip entry " + quoted(header.name) + " has two different names");
  }
  const std::uint64_t data = at + kLocalHeaderSize + name_size + extra_size;
  range_of(bytes, data, header.size, "the zip entry " + quoted(header.name));
  return {at, data + header.size};
}

void refuse_overlaps(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& left, const Span& right) { return left.begin < right.begin; });
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].begin < spans[i - 1].end) {
      throw FormatFault("two of its zip entries overlap at offset " +
                        std::to_string(spans[i].begin));
    }
  }
}

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes) {
  const Directory directory = read_directory(bytes);
  const std::string_view before_end = bytes.substr(0, directory.offset + directory.size);
  std::vector<Span> spans;
  std::vector<std::uint32_t> checksums;
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const Header header = read_header(before_end, at);
    spans.push_back(locate(bytes.substr(0, directory.offset), header));
    checksums.push_back(header.checksum);
    if (!by_name_.emplace(header.name, entries_.size()).second) {
      throw FormatFault("it has two zip entries named " + quoted(header.name));
    }
    entries_.push_back({header.name, bytes.substr(spans.back().end - header.size, header.size)});
  }
  if (at != before_end.size()) throw FormatFault("its zip directory is longer than its entries");
  refuse_overlaps(std::move(spans));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (checksum_of(entries_[i].bytes) != checksums[i]) {
      throw FormatFault("the checksum of its zip entry " + quoted(entries_[i].name) +
                        " is wrong; the file is damaged");
    }
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void ZipWriter::add(std::string_view name, std::string_view bytes) {
  const std::size_t local_offset = out_.size();
  const std::size_t unpadded = local_offset + kLocalHeaderSize + name.size() + 4;
  const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  if (unpadded + padding + bytes.size() > UINT32_MAX - (1U << 24) || ++count_ > UINT16_MAX) {
    throw InternalError("ZipWriter: more than 4 GiB or 65535 entries");
  }
  constexpr std::uint16_t kVersionNeeded = 20;
  constexpr std::uint16_t kUtf8Names = 1 << 11;
  constexpr std::uint16_t kFirstDay = 1 << 5 | 1;  // 1980-01-01, the earliest that zip can say
  std::string common;  // what both headers hold: version needed … name length
  append_little_endian<std::uint16_t>(common, kVersionNeeded);
  append_little_endian<std::uint16_t>(common, kUtf8Names);
  append_little_endian<std::uint16_t>(common, 0);  // stored
  append_little_endian<std::uint16_t>(common, 0);
  append_little_endian<std::uint16_t>(common, kFirstDay);
  append_little_endian<std::uint32_t>(common, checksum_of(bytes));
  append_little_endian<std::uint32_t>(common, static_cast<std::uint32_t>(bytes.size()));
  append_little_endian<std::uint32_t>(common, static_cast<std::uint32_t>(bytes.size()));
  append_little_endian<std::uint16_t>(common, static_cast<std::uint16_t>(name.size()));

  append_little_endian(out_, kLocalSignature);
  out_ += common;
  append_little_endian<std::uint16_t>(out_, static_cast<std::uint16_t>(4 + padding));
  out_ += name;
  out_ += "FB";  // torch's id of the field that pads
  append_little_endian<std::uint16_t>(out_, static_cast<std::uint16_t>(padding));
  out_.append(padding, 'Z');
  out_ += bytes;

  append_little_endian(directory_, kDirectorySignature);
  append_little_endian<std::uint16_t>(directory_, kVersionNeeded);
  directory_ += common;
  directory_.append(12, '\0');  // no extra field, no comment, first disk, no attributes
  append_little_endian<std::uint32_t>(directory_, static_cast<std::uint32_t>(local_offset));
  directory_ += name;
}

std::string ZipWriter::finish() && {
  const std::size_t offset = out_.size();
  out_ += directory_;
  append_little_endian(out_, kEndSignature);
  append_little_endian<std::uint32_t>(out_, 0);  // one disk
  append_little_endian<std::uint16_t>(out_, static_cast<std::uint16_t>(count_));
  append_little_endian<std::uint16_t>(out_, static_cast<std::uint16_t>(count_));
  append_little_endian<std::uint32_t>(out_, static_cast<std::uint32_t>(directory_.size()));
  append_little_endian<std::uint32_t>(out_, static_cast<std::uint32_t>(offset));
  append_little_endian<std::uint16_t>(out_, 0);
  return std::move(out_);
}

}  // namespace kiln
