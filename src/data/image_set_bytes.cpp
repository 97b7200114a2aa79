#include "data/image_set_bytes.h"

#include <cstring>

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
  std::string_view rest() const { return left_; }

 private:
  std::string_view next(std::size_t size) {
    if (size > left_.size()) throw InternalError("the image list from rank 0 is cut short");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

}  // namespace

std::string to_bytes(const ImageSet& set) {
  Writer writer;
  writer.number(static_cast<std::int64_t>(set.kind));
  writer.number(static_cast<std::int64_t>(set.classes.size()));
  for (const std::string& name : set.classes) writer.text(name);
  writer.number(static_cast<std::int64_t>(set.archives.size()));
  for (const ImageArchive& archive : set.archives) writer.text(archive.name);
  for (const std::string* text : {&set.list_name, &set.schema_json, &set.samples_json})
    writer.text(*text);
  std::string bytes = writer.take();
  set.items.append_to(bytes);
  return bytes;
}

ImageSet image_set_of(std::string_view bytes) {
  Reader reader(bytes);
  ImageSet set;
  set.kind = static_cast<ImageSet::Kind>(reader.number());
  set.classes.resize(static_cast<std::size_t>(reader.number()));
  for (std::string& name : set.classes) name = reader.text();
  set.archives.resize(static_cast<std::size_t>(reader.number()));
  for (ImageArchive& archive : set.archives) archive.name = reader.text();
  for (std::string* text : {&set.list_name, &set.schema_json, &set.samples_json})
    *text = reader.text();
  std::string_view rest = reader.rest();
  set.items = ImageItems::take_from(rest);
  return set;
}

}  // namespace kiln
