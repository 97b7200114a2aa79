#include "store/zip_archive.h"

#include <zlib.h>

#include "base/error.h"
#include "data/archive/archive.h"
#include "store/byte_reader.h"

namespace kiln {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kDirectorySignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::size_t kAlignment = 64;

std::string shown(std::string_view name) {
  return "'" + std::string(name.substr(0, 200)) + "'";
}

std::uint32_t checksum_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes) {
  std::vector<std::uint32_t> checksums;
  const auto add = [&](std::string_view name, const ArchiveMember& member) {
    if (member.packing == ArchiveMember::Packing::kDeflated) {
      throw FormatFault("its zip entry " + shown(name) +
                        " is compressed, which torch.save never does");
    }
    const std::string_view header = range_of(bytes, member.offset, kZipHeaderBytes, "a zip entry");
    const std::string_view data = range_of(bytes, zip_data_offset(header, member), member.size,
                                           "the zip entry " + shown(name));
    if (!by_name_.emplace(name, entries_.size()).second)
      throw FormatFault("it has two zip entries named " + shown(name));
    entries_.push_back({std::string(name), data});
    checksums.push_back(member.checksum);
  };
  try {
    list_zip(bytes, add);
  } catch (const ArchiveFault& fault) {
    throw FormatFault(fault.what());
  }
  // Checked last: entries are now known not to overlap, so each byte is read only once.
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (checksum_of(entries_[i].bytes) != checksums[i]) {
      throw FormatFault("the checksum of its zip entry " + shown(entries_[i].name) +
                        " is wrong; the file is damaged");
    }
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void ZipWriter::add(std::string_view name, std::string_view bytes) {
  const std::size_t local_offset = out_.size();
  const std::size_t unpadded = local_offset + kZipHeaderBytes + name.size() + 4;
  const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  if (unpadded + padding + bytes.size() > UINT32_MAX - (1U << 24) || ++count_ > UINT16_MAX) {
    throw InternalError("ZipWriter: more than 4 GiB or 65535 entries");
  }
  constexpr std::uint16_t kVersionNeeded = 20;
  constexpr std::uint16_t kUtf8Names = 1 << 11;
  constexpr std::uint16_t kFirstDay = 1 << 5 | 1;  // 1980-01-01, the earliest date in a zip
  std::string common;  // the fields shared by both headers: version needed … name length
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
  out_ += "FB";  // torch's id of the padding field
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
