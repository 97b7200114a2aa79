#include "data/image_set_bytes.h"

#include <cstring>
#include <stdexcept>

#include "base/error.h"

namespace kiln {
namespace {

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
  // Of things that take a byte each at least.
  std::size_t count() {
    const auto value = static_cast<std::uint64_t>(number());
    if (value > left_.size()) throw InternalError("the image list is cut short");
    return value;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> values(count());
    for (std::string& value : values) value = text();
    return values;
  }
  std::string_view rest() const { return left_; }

 private:
  std::string_view next(std::size_t size) {
    if (size > left_.size()) throw InternalError("the image list is cut short");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

// What other code indexes by must be there.
void require_consistent(const ImageSet& set) {
  using Kind = ImageSet::Kind;
  const auto num_classes = static_cast<std::int64_t>(set.classes.size());
  bool good = set.kind >= Kind::kImageDirectory && set.kind <= Kind::kArchives;
  for (std::size_t i = 0; good && i < set.items.size(); ++i) {
    const ArchiveMember* member = set.items.member(i);
    good = set.items.label(i) >= -1 && set.items.label(i) < num_classes &&
           (member == nullptr || member->archive < set.archives.size());
  }
  if (!good) throw InternalError("the image list contradicts itself");
}

}  // namespace

std::string to_bytes(const ImageSet& set, SetParts parts) {
  Writer writer;
  writer.number(static_cast<std::int64_t>(set.kind));
  writer.texts(set.classes);
  writer.texts({set.list_name, set.schema_json, set.samples_json});
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
  set.items.append_to(bytes);
  return bytes;
}

ImageSet image_set_of(std::string_view bytes, SetParts parts) {
  Reader reader(bytes);
  ImageSet set;
  set.kind = static_cast<ImageSet::Kind>(reader.number());
  set.classes = reader.texts();
  const std::vector<std::string> texts = reader.texts();
  if (texts.size() != 3) throw InternalError("the image list is not this program's");
  set.list_name = texts[0];
  set.schema_json = texts[1];
  set.samples_json = texts[2];
  set.archives.resize(reader.count());
  for (ImageArchive& archive : set.archives) archive.name = reader.text();
  if (parts == SetParts::kWithSources) {
    set.notes = reader.texts();
    set.stamps.resize(reader.count());
    for (SourceStamp& stamp : set.stamps) {
      stamp.name = reader.text();
      stamp.stamp = reader.number();
      stamp.changed_ns = reader.number();
    }
  }
  try {
    std::string_view rest = reader.rest();
    set.items = ImageItems::take_from(rest);
  } catch (const std::length_error& fault) {
    throw InternalError(fault.what());
  }
  require_consistent(set);
  return set;
}

}  // namespace kiln
