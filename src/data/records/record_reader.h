// Record files: TFRecord and RecordIO, one record after another from any source of bytes.
//
// TFRecord: length (8 bytes), its masked CRC-32C (4), data, their masked CRC-32C (4). TensorFlow,
// tensorflow/core/lib/io/record_writer.h.
// RecordIO: magic (4 bytes), word (4), data, zeros up to a multiple of four. The word's upper 3
// bits tell the part of a record (0 all of it, 1 the first, 2 another, 3 the last), the other 29
// the length. A writer splits a record where the magic stands in it at a multiple of four; between
// two parts these four bytes come back. dmlc-core, include/dmlc/recordio.h.
//
// All numbers are little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "data/records/byte_source.h"

namespace kiln {

enum class RecordFormat : std::uint8_t { kTfRecord, kRecordIo };

// "TFRecord", "RecordIO".
std::string_view describe(RecordFormat format);

// Why records cannot be read any further, or why one cannot be used: a clause without names.
class RecordFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A larger record is passed over: an image has 1 GiB at most.
constexpr std::uint64_t kMaxRecordBytes = (std::uint64_t{1} << 30) + (std::uint64_t{1} << 20);

// The numbers of both framings.
constexpr std::uint32_t kRecordIoMagic = 0xCED7230A;
constexpr std::size_t kTfRecordHeaderBytes = 12;
constexpr std::size_t kTfRecordTrailerBytes = 4;
constexpr std::size_t kRecordIoHeaderBytes = 8;

// Of the data behind a TFRecord's header of kTfRecordHeaderBytes. Throws RecordFault if the
// length's checksum is wrong.
std::uint64_t tfrecord_length(std::string_view header);

// Whether `trailer` of kTfRecordTrailerBytes is the checksum of `data`.
bool has_tfrecord_checksum(std::string_view data, std::string_view trailer);

// A part of a RecordIO record.
struct RecordPart {
  enum class Kind : std::uint8_t { kWhole, kFirst, kMiddle, kLast };
  Kind kind = Kind::kWhole;
  std::uint32_t size = 0;
  std::uint32_t padded_size() const { return (size + 3) & ~3U; }
  bool is_last() const { return kind == Kind::kWhole || kind == Kind::kLast; }
};

// Of a header of kRecordIoHeaderBytes. `is_inside`: the parts before belong to the same record.
// Throws RecordFault: no magic, or a part where it cannot be.
RecordPart recordio_part(std::string_view header, bool is_inside);

// What one of the two is, by its first bytes (kTfRecordHeaderBytes are enough); throws RecordFault.
RecordFormat record_format(std::string_view first_bytes);

struct Record {
  std::uint64_t offset = 0;  // of its header in the source
  std::uint64_t size = 0;    // of its data, as its header says
  std::string bytes;         // its data; reused by the next. Not to be used if there is a fault.
  // Why this record cannot be used, a clause: its checksum is wrong, or it is too large. The next
  // one can be read. Empty: nothing is wrong.
  std::string fault;
};

// Reads records in order. Memory is that of the record that is read, and never more than 1 MiB
// beyond the bytes that have come. One thread.
class RecordReader {
 public:
  // `source` must outlive it. `max_bytes`: of a record's data.
  RecordReader(ByteSource& source, RecordFormat format, std::uint64_t max_bytes = kMaxRecordBytes)
      : source_(source), format_(format), max_bytes_(max_bytes) {}

  // False at the end. Throws RecordFault: the source ends within a record, or its framing is not
  // what it should be, so that where the next record begins is not known; std::system_error.
  bool next(Record& record);

  // How many bytes of the source belong to the records so far: the next one begins here.
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

// A whole record of RecordIO (tfrecord() of TFRecord is in base/crc32c.h); `data` has less than 512
// MiB, InternalError otherwise.
std::string recordio_record(std::string_view data);

}  // namespace kiln
