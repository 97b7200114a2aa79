#include "data/image_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "data/decode.h"

namespace kiln {
namespace {

// A zip local header begins with this; PKWARE's APPNOTE.TXT 6.3.10, section 4.3.7.
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::size_t kLocalHeaderSize = 30;

// A bomb of one entry: larger than this, and so many times larger than what it inflates from.
constexpr std::uint64_t kMaxCalmBytes = 64 << 20;
constexpr std::uint64_t kMaxRatio = 100;

void read_exactly(const OpenFile& file, std::uint64_t offset, char* target, std::size_t size) {
  if (file.read_at(offset, target, size) == size) return;
  throw ImageFault("its archive is shorter than when it was listed");
}

unsigned little_endian_16(const char* bytes) {
  return static_cast<unsigned char>(bytes[0]) | static_cast<unsigned char>(bytes[1]) << 8;
}

// Where the bytes begin that follow the local header at `offset`.
std::uint64_t data_offset(const OpenFile& file, std::uint64_t offset) {
  char header[kLocalHeaderSize];
  read_exactly(file, offset, header, sizeof header);
  std::uint32_t signature = 0;
  std::memcpy(&signature, header, sizeof signature);
  if (signature != kLocalSignature) throw ImageFault("the zip has no such entry at its place");
  return offset + kLocalHeaderSize + little_endian_16(header + 26) + little_endian_16(header + 28);
}

void inflate_bytes(const std::string& packed, std::size_t size, std::string& buffer) {
  buffer.resize(size);
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
  stream.avail_out = static_cast<uInt>(size);
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const int end = inflate(&stream, Z_FINISH);
  const bool full = stream.avail_out == 0;
  inflateEnd(&stream);
  if (end == Z_STREAM_END && full) return;
  throw ImageFault("the zip entry does not inflate to the size that its directory says");
}

void read_member(const ImageSet& set, const ArchiveMember& member, std::size_t limit,
                 std::string& buffer) {
  using Packing = ArchiveMember::Packing;
  if (std::max(member.size, member.stored_size) > kMaxImageBytes)
    throw ImageFault("the file is larger than 1 GiB");
  if (member.size > kMaxCalmBytes && member.size / kMaxRatio > member.stored_size)
    throw ImageFault("it inflates to more than 100 times its size, as no image does");
  const OpenFile& file = set.archives[member.archive].file;
  if (member.packing == Packing::kPlain) {
    buffer.resize(std::min<std::size_t>(member.size, limit));
    read_exactly(file, member.offset, buffer.data(), buffer.size());
    return;
  }
  const std::uint64_t begin = data_offset(file, member.offset);
  std::string packed;
  std::string& stored = member.packing == Packing::kStored ? buffer : packed;
  stored.resize(member.stored_size);
  read_exactly(file, begin, stored.data(), stored.size());
  if (member.packing == Packing::kDeflated) inflate_bytes(packed, member.size, buffer);
  const uLong checksum =
      crc32_z(0, reinterpret_cast<const unsigned char*>(buffer.data()), buffer.size());
  if (checksum != member.checksum) throw ImageFault("its checksum in the zip is wrong");
}

void read_own_file(const ImageSet& set, std::size_t i, std::size_t limit, std::string& buffer) {
  const OpenFile file(set.root / set.items.file_name(i));
  const std::uint64_t size = file.size();
  if (size > kMaxImageBytes) throw ImageFault("the file is larger than 1 GiB");
  buffer.resize(std::min<std::size_t>(size, limit));
  buffer.resize(file.read_at(0, buffer.data(), buffer.size()));
}

}  // namespace

void read_first_bytes(const ImageSet& set, std::size_t i, std::size_t limit, std::string& buffer) {
  try {
    if (const ArchiveMember* member = set.items.member(i)) {
      read_member(set, *member, limit, buffer);
    } else {
      read_own_file(set, i, limit, buffer);
    }
  } catch (const std::system_error& error) {
    const int number = error.code().value();
    if (number == ENOMEM || number == EMFILE || number == ENFILE) throw;
    if (number == ENOENT || number == ENOTDIR) throw ImageFault("file missing");
    throw ImageFault("the file cannot be read: " + error.code().message());
  }
}

void read_image_bytes(const ImageSet& set, std::size_t i, std::string& buffer) {
  read_first_bytes(set, i, SIZE_MAX, buffer);
}

}  // namespace kiln
