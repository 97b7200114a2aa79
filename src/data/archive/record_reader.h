// Reads record files, TFRecord and RecordIO, one record after another from any source of bytes.
// All numbers in them are little-endian.
//
// TFRecord: length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C of the data
// (4). TensorFlow, tensorflow/core/lib/io/record_writer.h.
// RecordIO: magic (4 bytes), word (4), data, zeros up to a multiple of four. The upper 3 bits of
// the word give the part of a record (0 the whole, 1 the first, 2 a middle one, 3 the last), the
// other 29 bits the length. A writer splits a record wherever it contains the magic at a multiple
// of four; a reader puts those four bytes back between the two parts. dmlc-core,
// include/dmlc/recordio.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/archive/archive.h"
#include "record/vocabulary.h"

namespace kiln {

// Sequential bytes from a file or a stream.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Writes 1 to `size` bytes to `target` and returns their number; 0 only at the end, or if `size`
  // is 0. Throws std::system_error.
  virtual std::size_t read(char* target, std::size_t size) = 0;
};

// Reads a file from `offset` on. The file must stay open.
class FileSource : public ByteSource {
 public:
  explicit FileSource(const OpenFile& file, std::uint64_t offset = 0)
      : file_(file), offset_(offset) {}
  std::size_t read(char* target, std::size_t size) override {
    const std::size_t got = file_.read_at(offset_, target, size);
    offset_ += got;
    return got;
  }

 private:
  const OpenFile& file_;
  std::uint64_t offset_;
};

enum class RecordFormat : std::uint8_t { kTfRecord, kRecordIo };

// Why reading cannot continue, or why a record cannot be used, as a clause without names.
class RecordFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Larger records are skipped: an image has at most 1 GiB.
constexpr std::uint64_t kMaxRecordBytes = (std::uint64_t{1} << 30) + (std::uint64_t{1} << 20);

constexpr std::uint32_t kRecordIoMagic = 0xCED7230A;
constexpr std::size_t kTfRecordHeaderBytes = 12;
constexpr std::size_t kTfRecordTrailerBytes = 4;
constexpr std::size_t kRecordIoHeaderBytes = 8;

// The length of the data after a TFRecord header. Throws RecordFault if its checksum is wrong.
std::uint64_t tfrecord_length(std::string_view header);

// Whether `trailer`, of kTfRecordTrailerBytes bytes, is the checksum of `data`.
bool has_tfrecord_checksum(std::string_view data, std::string_view trailer);

enum class PartKind : std::uint8_t { kWhole, kFirst, kMiddle, kLast };

// A part of a RecordIO record.
struct RecordPart {
  PartKind kind = PartKind::kWhole;
  std::uint32_t size = 0;
  std::uint32_t padded_size() const { return (size + 3) & ~3U; }
  bool is_last() const { return kind == PartKind::kWhole || kind == PartKind::kLast; }
};

// Parses a header. `is_inside`: earlier parts belong to the same record. Throws RecordFault if
// there is no magic, or if this kind of part is not allowed here.
RecordPart recordio_part(std::string_view header, bool is_inside);

// The format by the first bytes, of which kTfRecordHeaderBytes are enough; empty: neither.
std::optional<RecordFormat> record_format(std::string_view first_bytes);

struct Record {
  std::uint64_t offset = 0;  // of the record's header in the source
  std::uint64_t size = 0;    // of the data, according to the header
  std::string bytes;         // the data; reused by the next record. Invalid if there is a fault.
  // Why this record cannot be used, as a clause: its checksum is wrong, or it is too large. The
  // next one can still be read. Empty: no fault.
  std::string fault;
};

// Reads records in order. Memory use is that of the current record, and never more than 1 MiB
// beyond the bytes that have arrived. Use from one thread.
class RecordReader {
 public:
  // `source` must outlive the reader. `max_bytes`: limit on a record's data.
  RecordReader(ByteSource& source, RecordFormat format, std::uint64_t max_bytes = kMaxRecordBytes)
      : source_(source), format_(format), max_bytes_(max_bytes) {}

  // Reads the next record; false at the end. Throws std::system_error, or RecordFault if the source
  // ends within a record or its framing is invalid: where the next one starts is then unknown.
  bool next(Record& record);

  // The number of source bytes read so far, which is where the next record starts.
  std::uint64_t offset() const { return offset_; }

 private:
  bool read_header(char* target, std::size_t size, bool may_end);
  void read_data(std::uint64_t size, Record& record);
  void skip(std::uint64_t size);
  void fill(char* target, std::size_t size);
  bool next_tfrecord(Record& record);
  bool next_recordio(Record& record);

  ByteSource& source_;
  RecordFormat format_;
  std::uint64_t max_bytes_;
  std::uint64_t offset_ = 0;
};

// A whole RecordIO record (for TFRecord, see base/tfrecord.h). InternalError for 512 MiB or more.
std::string recordio_record(std::string_view data);

// The contents of an image record: a tf.train.Example in a TFRecord, or in a RecordIO record the
// header of MXNet's im2rec followed by the image file.
//
// Example: tensorflow/core/example/example.proto and feature.proto, encoded as Protocol Buffers.
// Header: flag (4 bytes), label (float), two ids of 8 bytes; if flag is not 0, it is the number of
// labels (floats) that follow the header and replace that one. MXNet, python/mxnet/recordio.py,
// IRHeader.

// Where the image is in a record's data, and what else the record says about it.
struct RecordContents {
  std::string name;                  // empty: none
  std::string bytes;                 // the image file's contents, if image_record() read them
  std::vector<std::int64_t> labels;  // as stored, from 0 or from 1; empty: none
  std::string class_text;            // the first one; empty: none
  bool has_several_texts = false;
  bool has_several_labels() const { return labels.size() > 1 || has_several_texts; }
  bool is_written = false;  // `class_text` is a manifest_label(), and may be a number
  bool is_header = false;   // RecordIO: several numbers and no image, so no sample
  std::uint64_t image_begin = 0, image_size = 0;
};

// A record's data, in memory or in a file, of which only parts are read.
struct RecordView {
  std::uint64_t size = 0;
  // `count` bytes from `offset`, which must lie inside; valid until the next call. Throws
  // std::system_error, RecordFault.
  std::function<std::string_view(std::uint64_t offset, std::size_t count)> bytes;
};

RecordView view_of(std::string_view data);

// Throws RecordFault if the record is not an Example, has no image or several, or has features of
// other types. Reads only the headers of the fields and skips the image. Without both a label and a
// text in the Example, the record has no label.
RecordContents parse_example(const RecordView& record, const RecordKeys& keys);

// Throws RecordFault if the record is too short for its header, or a label is not a whole number.
RecordContents parse_recordio_image(const RecordView& record);

// SageMaker's augmented manifests come as RecordIO: an image file without a header, which would
// begin with a small number, then a record with its label. If that is an image too, the first one
// has no label.
bool is_bare_image(std::string_view data);
// The text of a label in JSON: a number, or a string in quotes; empty: none. Throws RecordFault if
// it has more than 4096 bytes.
std::string manifest_label(std::string_view json);

// Parses an Example for TFRecord, a header and an image for RecordIO. Throws RecordFault as above.
RecordContents image_record(std::string_view data, RecordFormat format,
                            const RecordKeys& keys = {});

// Serialize the data of a record. An Example has the features of RecordKeys (text and name only if
// not empty) and image/format. A RecordIO header has one label, and `id`.
std::string example_of(const RecordContents& image, std::string_view kind);
std::string recordio_image_of(std::string_view image, std::int64_t label, std::uint64_t id);

}  // namespace kiln
