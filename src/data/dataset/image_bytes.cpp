#include "data/dataset/image_bytes.h"

#include <zlib.h>
#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "data/archive/record_reader.h"
#include "data/image/image.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

// A member is rejected if it is larger and inflates by more than this factor.
constexpr std::uint64_t kMaxCalmBytes = 64 << 20;
constexpr std::uint64_t kMaxRatio = 100;

void read_exactly(const OpenFile& file, std::uint64_t offset, char* target, std::size_t size) {
  if (file.read_at(offset, target, size) == size) return;
  throw ImageFault("its archive was truncated after it was listed");
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

// The checksum covers the whole record: it is not verified if only the first bytes are read.
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

// What a set says about itself, for both writing and reading.
void visit_facts(Is<Dataset> auto& set, auto&& field) {
  fields(field, "kind", set.kind, "is_image_directory", set.is_image_directory, "exif", set.exif,
         "sizes_with", set.sizes_with, "folder", set.folder, "list_name", set.list_name, "schema",
         set.schema_json, "samples", set.samples_json, "classes", set.classes, "label sets",
         set.labels.sets, "found", set.found);
}

// Checks that all indices are in range.
void require_consistent(const Dataset& set) {
  using Kind = Dataset::Kind;
  const auto num_classes = static_cast<std::int64_t>(set.classes.size());
  bool good = set.kind >= Kind::kImageDirectory && set.kind <= Kind::kStream &&
              set.found.ids.size() == set.found.labels.size();
  std::vector<bool> is_found(set.classes.size(), set.found.ids.empty());
  for (const int id : set.found.ids) {
    good = good && id >= 0 && id < num_classes;
    if (good) is_found[static_cast<std::size_t>(id)] = true;
  }
  const auto is_class = [&](int id) { return id >= 0 && id < num_classes && is_found[id]; };
  const std::vector<std::vector<int>>& label_sets = set.labels.sets;
  for (const std::vector<int>& ids : label_sets) good = good && std::ranges::all_of(ids, is_class);
  const auto is_label = [&](int label) {
    return label_sets.empty() ? is_class(label) : label < std::ssize(label_sets);
  };
  for (std::size_t i = 0; good && i < set.samples.size(); ++i) {
    const ArchiveMember* member = set.samples.member(i);
    const int label = set.samples.label(i);
    good = (label == -1 || (label >= 0 && is_label(label))) &&
           (member == nullptr || member->archive < set.archives.size());
  }
  if (!good) throw InternalError("the image list is inconsistent");
}

}  // namespace

UnreadableImage::UnreadableImage(const std::system_error& fault)
    : ImageFault("the file cannot be read: " + fault.code().message()),
      error(fault.code().value()) {}

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
  char header[kZipHeaderBytes];
  read_exactly(file, member.offset, header, sizeof header);
  std::string packed;
  std::string& stored = member.packing == Packing::kStored ? buffer : packed;
  try {
    const std::uint64_t begin = zip_data_offset({header, sizeof header}, member);
    stored.resize(member.stored_size);
    read_exactly(file, begin, stored.data(), stored.size());
  } catch (const ArchiveFault& fault) {
    throw ImageFault(fault.what());
  }
  if (member.packing == Packing::kDeflated) inflate_bytes(packed, member.size, buffer);
  const auto* bytes = reinterpret_cast<const Bytef*>(buffer.data());
  if (crc32_z(0, bytes, buffer.size()) != member.checksum)
    throw ImageFault("its zip checksum is wrong");
}

std::optional<std::uint64_t> stored_bytes(const Dataset& set, std::size_t i) {
  if (const ArchiveMember* member = set.samples.member(i)) return member->size;
  std::error_code missing;
  const auto size = fs::file_size(set.image_root() / set.samples.file_name(i), missing);
  return missing ? std::nullopt : std::optional<std::uint64_t>(size);
}

void read_first_bytes(const Dataset& set, std::size_t i, std::size_t limit, std::string& buffer) {
  try {
    if (const ArchiveMember* member = set.samples.member(i))
      return read_member(set.archives[member->archive].file, *member, limit, buffer);
    const OpenFile file(set.image_root() / set.samples.file_name(i));
    const std::uint64_t size = file.size();
    if (size > kMaxImageBytes) throw ImageFault("the file is larger than 1 GiB");
    buffer.resize(std::min<std::size_t>(size, limit));
    buffer.resize(file.read_at(0, buffer.data(), buffer.size()));
  } catch (const std::system_error& error) {
    const int number = error.code().value();
    if (number == ENOMEM || number == EMFILE || number == ENFILE) throw;
    if (number == ENOENT || number == ENOTDIR) throw ImageFault("file missing");
    throw UnreadableImage(error);
  }
}

std::string to_bytes(const Dataset& set) {
  std::string bytes;
  visit_facts(set, [&](const char*, const auto& fact) { append_bytes(bytes, fact); });
  append_bytes(bytes, std::int64_t{set.first_label.value_or(-1)});
  append_bytes(bytes, list_from(set.archives, &ImageArchive::name));
  set.samples.append_to(bytes);
  return bytes;
}

Dataset dataset_of(std::string_view bytes) {
  Dataset set;
  visit_facts(set, [&](const char*, auto& fact) { take_bytes(bytes, fact); });
  set.found.where.clear();  // it may be elsewhere here
  if (const auto first = value_from<std::int64_t>(bytes); first >= 0)
    set.first_label = static_cast<int>(std::min<std::int64_t>(first, 1));
  for (std::string& name : value_from<std::vector<std::string>>(bytes))
    set.archives.emplace_back().name = std::move(name);
  set.samples = SampleTable::take_from(bytes);
  require_consistent(set);
  return set;
}

}  // namespace kiln
