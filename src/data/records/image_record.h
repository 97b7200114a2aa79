// What a record says of an image: tf.train.Example in a TFRecord, or the header of MXNet's im2rec
// before the image's file in a RecordIO record.
//
// Example: tensorflow/core/example/example.proto and feature.proto, in the encoding of Protocol
// Buffers. Header: flag (4 bytes), label (float), two ids of 8 bytes; where flag is not 0 it counts
// the labels (floats) that follow instead of that one. MXNet, python/mxnet/recordio.py, IRHeader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/record_options.h"
#include "data/records/record_reader.h"

namespace kiln {

// Where the image is in a record's data, and what else is said of it.
struct RecordContents {
  std::uint64_t image_begin = 0;
  std::uint64_t image_size = 0;
  std::vector<std::int64_t> labels;  // as stored; empty: none
  std::string class_text;            // empty: none
  std::string name;                  // empty: none
};

// A record's data, of which only parts are looked at: those in memory, or in a file.
class RecordView {
 public:
  virtual ~RecordView() = default;
  virtual std::uint64_t size() const = 0;
  // `count` bytes from `offset`, which lie inside; valid until the next call. Throws
  // std::system_error, RecordFault.
  virtual std::string_view bytes(std::uint64_t offset, std::size_t count) = 0;
};

// Throws RecordFault: not an Example, no image in it, several of them, or features of other types.
// Looks at the fields' heads and skips over the image. An Example without label and text has none.
RecordContents parse_example(RecordView& record, const RecordKeys& keys);

// Throws RecordFault: too short for its header, or a label that is no whole number.
RecordContents parse_recordio_image(RecordView& record);

struct ImageRecord {
  std::string name;                  // as the record says; empty: it does not
  std::string bytes;                 // the image's file
  std::vector<std::int64_t> labels;  // as stored, from 0 or from 1; empty: none
  std::string class_text;            // empty: none
};

// Of a record's data: an Example in a TFRecord, a header and an image in RecordIO. Throws
// RecordFault as above.
ImageRecord image_record(std::string_view data, RecordFormat format, const RecordKeys& keys = {});

// Writing: the data of a record. An Example has the features of RecordKeys (text and name only if
// they are not empty) and image/format; a header one label, and `id`.
std::string example_of(const ImageRecord& image, std::string_view kind);
std::string recordio_image_of(std::string_view image, std::int64_t label, std::uint64_t id);

}  // namespace kiln
