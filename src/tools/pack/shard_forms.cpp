#include "tools/pack/shard_forms.h"

#include <utility>

#include "base/crc32c.h"
#include "base/text.h"
#include "data/archive/archive.h"
#include "data/archive/image_record.h"
#include "data/archive/record_reader.h"

namespace kiln {
namespace {

// WebDataset: KEY.jpg, then KEY.cls.
class TarForm : public ShardForm {
 public:
  std::string extension() const override { return ".tar"; }
  std::string item(const ShardItem& item) const override {
    const std::string key = formatted("%09zu", item.position);
    return tar_member(key + "." + std::string(item.extension), item.bytes) +
           tar_member(key + ".cls", std::to_string(item.label));
  }
  std::string end() const override { return tar_end(); }
};

class TfRecordForm : public ShardForm {
 public:
  std::string extension() const override { return ".tfrecord"; }
  std::string item(const ShardItem& item) const override {
    const ImageRecord image{.name = std::string(item.name),
                            .bytes = std::string(item.bytes),
                            .labels = {item.label},
                            .class_text = std::string(item.class_name)};
    return tfrecord(example_of(image, item.extension == "jpg" ? "jpeg" : item.extension));
  }
};

// Also makes the index that im2rec.py writes next to it, whose lines are "POSITION<tab>OFFSET".
class RecordIoForm : public ShardForm {
 public:
  std::string extension() const override { return ".rec"; }
  std::string item(const ShardItem& item) const override {
    return recordio_record(recordio_image_of(item.bytes, item.label, item.position));
  }
  void note_place(std::size_t position, std::uint64_t offset) override {
    index_ += std::to_string(position) + "\t" + std::to_string(offset) + "\n";
  }
  std::string index() override { return std::exchange(index_, {}); }

 private:
  std::string index_;
};

}  // namespace

std::unique_ptr<ShardForm> make_shard_form(ShardFormat format) {
  if (format == ShardFormat::kTfRecord) return std::make_unique<TfRecordForm>();
  if (format == ShardFormat::kRecordIo) return std::make_unique<RecordIoForm>();
  return std::make_unique<TarForm>();
}

std::uint64_t max_image_bytes(ShardFormat format) {
  constexpr std::uint64_t kHeaderAndMore = 4096;
  return format == ShardFormat::kRecordIo ? (std::uint64_t{1} << 29) - kHeaderAndMore
                                          : std::uint64_t{1} << 30;
}

}  // namespace kiln
