#include "data/stream/record_stream.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "data/archive/image_record.h"
#include "data/archive/record_reader.h"
#include "data/archive/tar.h"

namespace kiln {
namespace {

class StreamBytes final : public ByteSource {
 public:
  explicit StreamBytes(ByteStream& bytes) : bytes_(bytes) {}
  std::size_t read(char* target, std::size_t size) override {
    return bytes_.take_some(target, size);
  }

 private:
  ByteStream& bytes_;
};

class FramedRecords final : public RecordStream {
 public:
  FramedRecords(ByteStream& bytes, RecordFormat format, const RecordOptions& options)
      : source_(bytes), format_(format), keys_(options.keys), reader_(source_, format) {}

  bool next(StreamRecord& image) override {
    while (read(image))
      if (!is_header_) return true;
    return false;
  }

  const LeftOut& left_out() const override { return left_out_; }

 private:
  // Reads a record, which may be a header. False at the end.
  bool read(StreamRecord& image) {
    is_header_ = false;
    Record record;
    if (!take(record)) return false;
    image = {.name = "record " + std::to_string(++count_), .bytes = {}, .label = {}, .fault = {}};
    image.fault = record.fault;
    if (!record.fault.empty()) return true;
    if (format_ == RecordFormat::kRecordIo && is_bare_image(record.bytes)) {
      image.bytes = std::move(record.bytes);
      take_manifest_label(image);
      return true;
    }
    try {
      ImageRecord parsed = image_record(record.bytes, format_, keys_);
      is_header_ = parsed.is_header;
      if (is_header_) left_out_.other_files.add(image.name + " (a header without an image)");
      if (!parsed.name.empty()) image.name = parsed.name;
      image.bytes = std::move(parsed.bytes);
      image.label.text = parsed.class_text;
      if (!parsed.labels.empty())
        image.label.number = std::max<std::int64_t>(parsed.labels.front(), -1);
    } catch (const RecordFault& fault) {
      image.fault = fault.what();
    }
    return true;
  }

  bool take(Record& record) {
    if (ahead_) {
      record = *std::exchange(ahead_, std::nullopt);
      return true;
    }
    return reader_.next(record);
  }

  void take_manifest_label(StreamRecord& image) {
    Record label;
    if (!reader_.next(label)) return;
    if (is_bare_image(label.bytes)) {
      ahead_ = std::move(label);
      return;
    }
    image.fault = label.fault;
    if (!image.fault.empty()) return;
    try {
      image.label = {.text = manifest_label(label.bytes), .is_written = true};
    } catch (const RecordFault& fault) {
      image.fault = fault.what();
    }
  }

  StreamBytes source_;
  const RecordFormat format_;
  const RecordKeys keys_;
  RecordReader reader_;
  std::optional<Record> ahead_;
  bool is_header_ = false;
  LeftOut left_out_;
  long long count_ = 0;
};

}  // namespace

std::unique_ptr<RecordStream> open_records(ByteStream& bytes, const RecordOptions& options) {
  const std::string first(bytes.peek(kTarBlock));
  if (first.empty()) throw StreamFault("ends before its first byte");
  if (is_compressed(first))
    throw StreamFault(
        "is compressed: decompress it on the fly, such as `gzip -dc FILE | kiln train …`");
  if (begins_as_tar(first)) return open_tar_records(bytes);
  if (const std::optional<RecordFormat> format = record_format(first))
    return std::make_unique<FramedRecords>(bytes, *format, options);
  throw StreamFault("begins with '" + printable(first.substr(0, 16)) +
                    "', and is neither tar, TFRecord nor RecordIO");
}

}  // namespace kiln
