#include <deque>
#include <optional>
#include <utility>

#include "base/text_file.h"
#include "data/archive/tar_headers.h"
#include "data/dataset/archive_names.h"
#include "data/dataset/image_bytes.h"
#include "data/stream/record_stream.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostLabelBytes = 4096;
// The most zeros after an end mark, where tars are padded. Without a limit, /dev/zero would be read
// forever.
constexpr std::uint64_t kMostZeroBytes = 16 << 20;

// "train/cat/1.jpg" -> "cat".
std::string folder_of(const std::string& name) {
  const std::size_t end = name.rfind('/');
  if (end == std::string::npos) return {};
  const std::string folders = name.substr(0, end);
  return folders.substr(folders.rfind('/') + 1);
}

class TarRecords final : public RecordStream {
 public:
  explicit TarRecords(ByteStream& bytes) : bytes_(bytes) {}

  bool next(StreamRecord& record) override {
    while (complete_.empty() && read_entry()) {
    }
    if (complete_.empty()) return false;
    record = std::move(complete_.front());
    complete_.pop_front();
    return true;
  }

 private:
  // Reads an entry or an end mark. False at the end of the stream.
  bool read_entry() {
    const std::uint64_t at = bytes_.position();
    std::string header;
    if (!bytes_.read(kTarBlock, header)) {
      if (!ended_) throw StreamFault("ends before the tar's end marker");
      finish_image();
      return !complete_.empty();
    }
    ended_ = is_zero(header);
    zero_bytes_ = ended_ ? zero_bytes_ + kTarBlock : 0;
    if (zero_bytes_ > kMostZeroBytes) throw StreamFault("has sent 16 MiB of zeros and no image");
    if (ended_) return true;
    const TarHeaders::Entry entry = headers_.read(header, at);
    if (entry.kind == TarHeaders::Kind::kExtra) {
      headers_.take_extra(entry, data_of(entry));
      return true;
    }
    const std::string name = headers_.take_name(entry, header);
    const bool is_file = entry.kind == TarHeaders::Kind::kFile;  // a link has no data
    if (is_file && is_archived_image(name))
      add_image(name, data_of(entry));
    else if (is_file && is_label_file(name) && entry.size <= kMostLabelBytes)
      add_label(name, data_of(entry));
    else
      bytes_.skip(tar_padded(entry.size));
    return true;
  }

  std::string data_of(const TarHeaders::Entry& entry) {
    if (entry.size > kMaxImageBytes) throw StreamFault("holds a file that is larger than 1 GiB");
    std::string data = bytes_.take(entry.size);
    bytes_.skip(tar_padded(entry.size) - entry.size);
    return data;
  }

  void add_image(const std::string& name, std::string data) {
    finish_image();
    image_ = StreamRecord{name, std::move(data), {}, {}};
    if (label_key_ == key_of(name)) label_image(label_);
  }

  void add_label(const std::string& name, const std::string& text) {
    label_key_ = key_of(name);
    label_ = without_byte_order_mark(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
    if (image_ && label_key_ == key_of(image_->name)) label_image(label_);
  }

  void label_image(const std::string& label) {
    image_->label = label;
    complete_.push_back(std::move(*image_));
    image_.reset();
  }

  // Completes an image that has no label file: its label is its folder.
  void finish_image() {
    if (image_) label_image(folder_of(image_->name));
  }

  ByteStream& bytes_;
  TarHeaders headers_;
  bool ended_ = false;                 // after the end mark of a tar
  std::uint64_t zero_bytes_ = 0;       // in a row, up to here
  std::optional<StreamRecord> image_;  // whose label may follow
  std::string label_key_, label_;      // from the last label file
  std::deque<StreamRecord> complete_;
};

}  // namespace

std::unique_ptr<RecordStream> open_tar_records(ByteStream& bytes) {
  return std::make_unique<TarRecords>(bytes);
}

}  // namespace kiln
