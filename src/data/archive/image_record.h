// The contents of an image record: a tf.train.Example in a TFRecord, or in a RecordIO record the
// header of MXNet's im2rec followed by the image file.
//
// Example: tensorflow/core/example/example.proto and feature.proto, encoded as Protocol Buffers.
// Header: flag (4 bytes), label (float), two ids of 8 bytes; if flag is not 0, it is the number of
// labels (floats) that follow the header and replace that one. MXNet, python/mxnet/recordio.py,
// IRHeader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/archive/record_reader.h"
#include "record/vocabulary.h"

namespace kiln {

// Where the image is in a record's data, and what else the record says about it.
struct RecordContents {
  std::uint64_t image_begin = 0;
  std::uint64_t image_size = 0;
  std::vector<std::int64_t> labels;  // as stored; empty: none
  std::string class_text;            // empty: none
  bool is_written = false;           // `class_text` is a manifest_label(), and may be a number
  std::string name;                  // empty: none
  bool is_header = false;            // RecordIO: several numbers and no image, so no sample
};

// A record's data, in memory or in a file, of which only parts are read.
class RecordView {
 public:
  virtual ~RecordView() = default;
  virtual std::uint64_t size() const = 0;
  // `count` bytes from `offset`, which must lie inside; valid until the next call. Throws
  // std::system_error, RecordFault.
  virtual std::string_view bytes(std::uint64_t offset, std::size_t count) = 0;
};

class BytesView : public RecordView {
 public:
  explicit BytesView(std::string_view data) : data_(data) {}
  std::uint64_t size() const override { return data_.size(); }
  std::string_view bytes(std::uint64_t offset, std::size_t count) override {
    return data_.substr(offset, count);
  }

 private:
  std::string_view data_;
};

// Throws RecordFault if the record is not an Example, has no image or several, or has features of
// other types. Reads only the headers of the fields and skips the image. Without both a label and a
// text in the Example, the record has no label.
RecordContents parse_example(RecordView& record, const RecordKeys& keys);

// Throws RecordFault if the record is too short for its header, or a label is not a whole number.
RecordContents parse_recordio_image(RecordView& record);

// SageMaker's augmented manifests come as RecordIO: an image file without a header, which would
// begin with a small number, then a record with its label. If that is an image too, the first one
// has no label.
bool is_bare_image(std::string_view data);
// The text of a label in JSON: a number, or a string in quotes; empty: none. Throws RecordFault if
// it has more than 4096 bytes.
std::string manifest_label(std::string_view json);

struct ImageRecord {
  std::string name;                  // from the record; empty: none
  std::string bytes;                 // the image file's contents
  std::vector<std::int64_t> labels;  // as stored, from 0 or from 1; empty: none
  std::string class_text;            // empty: none
  bool is_header = false;            // as above
};

// Parses a record's data: an Example for TFRecord, a header and an image for RecordIO. Throws
// RecordFault as above.
ImageRecord image_record(std::string_view data, RecordFormat format, const RecordKeys& keys = {});

// Serialize the data of a record. An Example has the features of RecordKeys (text and name only if
// not empty) and image/format. A RecordIO header has one label, and `id`.
std::string example_of(const ImageRecord& image, std::string_view kind);
std::string recordio_image_of(std::string_view image, std::int64_t label, std::uint64_t id);

}  // namespace kiln
