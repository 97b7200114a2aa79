#include "data/dataset/image_bytes.h"

#include <zlib.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "base/error.h"
#include "data/archive/record_reader.h"
#include "data/image/image.h"

namespace kiln {
namespace {

// An archive member is rejected if it is larger than kMaxCalmBytes and inflates by more than the
// factor kMaxRatio.
constexpr std::uint64_t kMaxCalmBytes = 64 << 20;
constexpr std::uint64_t kMaxRatio = 100;

void read_exactly(const OpenFile& file, std::uint64_t offset, char* target, std::size_t size) {
  if (file.read_at(offset, target, size) == size) return;
  throw ImageFault("its archive was truncated after it was listed");
}

// The offset of the data that follows a zip member's local header.
std::uint64_t data_offset(const OpenFile& file, const ArchiveMember& member) {
  char header[kZipHeaderBytes];
  read_exactly(file, member.offset, header, sizeof header);
  try {
    return zip_data_offset({header, sizeof header}, member);
  } catch (const ArchiveFault& fault) {
    throw ImageFault(fault.what());
  }
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
  throw ImageFault("the zip entry does not inflate to the size in the zip directory");
}

// Cuts a record's data down to the image in it.
void cut_image(const ArchiveMember& member, std::string& data) {
  if (member.checksum > data.size() || member.size > data.size() - member.checksum)
    throw ImageFault("its record has changed since it was listed");
  data.resize(member.checksum + member.size);
  data.erase(0, member.checksum);
}

// The checksum covers the whole record, so it is not verified if only the first `limit` bytes are
// read.
void read_tfrecord(const OpenFile& file, const ArchiveMember& member, std::size_t limit,
                   std::string& buffer) {
  if (limit < member.size) {
    buffer.resize(limit);
    return read_exactly(file, member.offset + member.checksum, buffer.data(), limit);
  }
  buffer.resize(member.stored_size + kTfRecordTrailerBytes);
  read_exactly(file, member.offset, buffer.data(), buffer.size());
  const std::string_view all = buffer;
  if (!has_tfrecord_checksum(all.substr(0, member.stored_size), all.substr(member.stored_size)))
    throw ImageFault("the checksum (CRC-32C) of its record is wrong");
  buffer.resize(member.stored_size);
  cut_image(member, buffer);
}

void read_parts(const OpenFile& file, const ArchiveMember& member, std::string& buffer) {
  FileSource source(file, member.offset);
  Record record;
  try {
    RecordReader(source, RecordFormat::kRecordIo).next(record);
  } catch (const RecordFault& fault) {
    throw ImageFault(std::string("its record cannot be read: ") + fault.what());
  }
  buffer = std::move(record.bytes);
  cut_image(member, buffer);
}

}  // namespace

void read_member(const OpenFile& file, const ArchiveMember& member, std::size_t limit,
                 std::string& buffer) {
  using Packing = ArchiveMember::Packing;
  if (std::max(member.size, member.stored_size) > kMaxImageBytes)
    throw ImageFault("the file is larger than 1 GiB");
  if (member.size > kMaxCalmBytes && member.size / kMaxRatio > member.stored_size)
    throw ImageFault(
        "it inflates to more than 100 times its size, which is not plausible for images");
  if (member.stored_size > kMaxCalmBytes && member.stored_size > file.size())
    throw ImageFault("it is larger than its archive");
  if (member.packing == Packing::kPlain) {
    buffer.resize(std::min<std::size_t>(member.size, limit));
    read_exactly(file, member.offset, buffer.data(), buffer.size());
    return;
  }
  if (member.packing == Packing::kTfRecord) return read_tfrecord(file, member, limit, buffer);
  if (member.packing == Packing::kParts) return read_parts(file, member, buffer);
  const std::uint64_t begin = data_offset(file, member);
  std::string packed;
  std::string& stored = member.packing == Packing::kStored ? buffer : packed;
  stored.resize(member.stored_size);
  read_exactly(file, begin, stored.data(), stored.size());
  if (member.packing == Packing::kDeflated) inflate_bytes(packed, member.size, buffer);
  const uLong checksum =
      crc32_z(0, reinterpret_cast<const unsigned char*>(buffer.data()), buffer.size());
  if (checksum != member.checksum) throw ImageFault("its zip checksum is wrong");
}

namespace {

void read_own_file(const Dataset& set, std::size_t i, std::size_t limit, std::string& buffer) {
  const OpenFile file(set.root / set.samples.file_name(i));
  const std::uint64_t size = file.size();
  if (size > kMaxImageBytes) throw ImageFault("the file is larger than 1 GiB");
  buffer.resize(std::min<std::size_t>(size, limit));
  buffer.resize(file.read_at(0, buffer.data(), buffer.size()));
}

class Writer {
 public:
  void number(std::int64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_ += value;
  }
  void texts(const std::vector<std::string>& values) {
    number(static_cast<std::int64_t>(values.size()));
    for (const std::string& value : values) text(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  std::int64_t number() {
    std::int64_t value = 0;
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(next(static_cast<std::size_t>(number()))); }
  // Reads the number of items that follow. Throws InternalError if they do not fit in the remaining
  // bytes, given that each takes at least `numbers` numbers.
  std::size_t count(std::size_t numbers) {
    const auto value = static_cast<std::uint64_t>(number());
    if (value > left_.size() / (numbers * sizeof(std::int64_t)))
      throw InternalError("the image list is truncated");
    return value;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> values(count(1));
    for (std::string& value : values) value = text();
    return values;
  }
  std::string_view rest() const { return left_; }

 private:
  std::string_view next(std::size_t size) {
    if (size > left_.size()) throw InternalError("the image list is truncated");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

// Checks that all indices are in range.
void require_consistent(const Dataset& set) {
  using Kind = Dataset::Kind;
  const auto num_classes = static_cast<std::int64_t>(set.classes.size());
  bool good = set.kind >= Kind::kImageDirectory && set.kind <= Kind::kStream;
  for (std::size_t i = 0; good && i < set.samples.size(); ++i) {
    const ArchiveMember* member = set.samples.member(i);
    good = set.samples.label(i) >= -1 && set.samples.label(i) < num_classes &&
           (member == nullptr || member->archive < set.archives.size());
  }
  std::vector<bool> is_found(set.classes.size(), set.found.ids.empty());
  for (const int id : set.found.ids) {
    good = good && id >= 0 && id < num_classes;
    if (good) is_found[static_cast<std::size_t>(id)] = true;
  }
  for (std::size_t i = 0; good && i < set.samples.size(); ++i) {
    const int label = set.samples.label(i);
    good = label < 0 || is_found[static_cast<std::size_t>(label)];
  }
  if (!good) throw InternalError("the image list is inconsistent");
}

}  // namespace

void read_first_bytes(const Dataset& set, std::size_t i, std::size_t limit, std::string& buffer) {
  try {
    if (const ArchiveMember* member = set.samples.member(i)) {
      read_member(set.archives[member->archive].file, *member, limit, buffer);
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

void read_image_bytes(const Dataset& set, std::size_t i, std::string& buffer) {
  read_first_bytes(set, i, SIZE_MAX, buffer);
}

std::string to_bytes(const Dataset& set, SetParts parts) {
  Writer writer;
  writer.number(static_cast<std::int64_t>(set.kind));
  writer.number(set.is_image_directory ? 1 : 0);
  writer.texts(set.classes);
  writer.texts({set.list_name, set.schema_json, set.samples_json, set.read_with});
  writer.number(set.first_label.value_or(-1));
  writer.number(set.exif == Exif::kApply ? 1 : 0);
  writer.number(set.sizes_with == Exif::kApply ? 1 : 0);
  FoundLabels found = set.found;
  found.where.clear();  // it may be elsewhere when it is read
  writer.texts(to_texts(found));
  writer.number(static_cast<std::int64_t>(set.archives.size()));
  for (const ImageArchive& archive : set.archives) writer.text(archive.name);
  if (parts == SetParts::kWithSources) {
    writer.texts(set.notes);
    writer.number(static_cast<std::int64_t>(set.stamps.size()));
    for (const SourceStamp& stamp : set.stamps) {
      writer.text(stamp.name);
      writer.number(stamp.stamp);
      writer.number(stamp.changed_ns);
    }
  }
  std::string bytes = writer.take();
  set.samples.append_to(bytes);
  return bytes;
}

Dataset dataset_of(std::string_view bytes, SetParts parts) {
  Reader reader(bytes);
  Dataset set;
  set.kind = static_cast<Dataset::Kind>(reader.number());
  set.is_image_directory = reader.number() == 1;
  set.classes = reader.texts();
  const std::vector<std::string> texts = reader.texts();
  if (texts.size() != 4) throw InternalError("the image list is from a different program");
  set.list_name = texts[0];
  set.schema_json = texts[1];
  set.samples_json = texts[2];
  set.read_with = texts[3];
  if (const std::int64_t first = reader.number(); first >= 0)
    set.first_label = static_cast<int>(std::min<std::int64_t>(first, 1));
  for (Exif* exif : {&set.exif, &set.sizes_with})
    *exif = reader.number() == 1 ? Exif::kApply : Exif::kIgnore;
  set.found = from_texts(reader.texts());
  set.archives.resize(reader.count(1));
  for (ImageArchive& archive : set.archives) archive.name = reader.text();
  if (parts == SetParts::kWithSources) {
    set.notes = reader.texts();
    set.stamps.resize(reader.count(3));
    for (SourceStamp& stamp : set.stamps) {
      stamp.name = reader.text();
      stamp.stamp = reader.number();
      stamp.changed_ns = reader.number();
    }
  }
  try {
    std::string_view rest = reader.rest();
    set.samples = SampleTable::take_from(rest);
  } catch (const std::length_error& fault) {
    throw InternalError(fault.what());
  }
  require_consistent(set);
  return set;
}

}  // namespace kiln
