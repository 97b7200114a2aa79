#include "data/archive/record_reader.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/error.h"

namespace kiln {
namespace {

// A record's buffer grows by no more than this before its bytes have arrived.
constexpr std::size_t kPortion = 1 << 20;
constexpr std::uint32_t kMaxPartBytes = (1U << 29) - 1;

std::string magic_bytes() {
  return little_endian(kRecordIoMagic, 4);
}

}  // namespace

std::string_view describe(RecordFormat format) {
  return format == RecordFormat::kTfRecord ? "TFRecord" : "RecordIO";
}

std::uint64_t tfrecord_length(std::string_view header) {
  if (from_little_endian(header.substr(8, 4)) != masked_crc32c(crc32c(header.substr(0, 8))))
    throw RecordFault("the checksum (CRC-32C) of a record's length is wrong");
  return from_little_endian(header.substr(0, 8));
}

bool has_tfrecord_checksum(std::string_view data, std::string_view trailer) {
  return from_little_endian(trailer.substr(0, 4)) == masked_crc32c(crc32c(data));
}

RecordPart recordio_part(std::string_view header, bool is_inside) {
  if (from_little_endian(header.substr(0, 4)) != kRecordIoMagic)
    throw RecordFault("a record's magic number is missing");
  const std::uint64_t word = from_little_endian(header.substr(4, 4));
  const std::uint64_t kind = word >> 29;
  if (kind > 3) throw RecordFault("a record has a part of unknown kind");
  const RecordPart part{.kind = static_cast<RecordPart::Kind>(kind),
                        .size = static_cast<std::uint32_t>(word & kMaxPartBytes)};
  const bool continues =
      part.kind == RecordPart::Kind::kMiddle || part.kind == RecordPart::Kind::kLast;
  if (continues != is_inside) {
    throw RecordFault(is_inside ? "a record begins before the previous one is complete"
                                : "a record does not begin with its first part");
  }
  return part;
}

std::optional<RecordFormat> record_format(std::string_view first_bytes) {
  if (first_bytes.starts_with(magic_bytes())) return RecordFormat::kRecordIo;
  if (first_bytes.size() >= kTfRecordHeaderBytes) {
    try {
      tfrecord_length(first_bytes);
      return RecordFormat::kTfRecord;
    } catch (const RecordFault&) {  // not TFRecord either
    }
  }
  return std::nullopt;
}

bool RecordReader::next(Record& record) {
  record.offset = offset_;
  record.size = 0;
  record.bytes.clear();
  record.fault.clear();
  return format_ == RecordFormat::kTfRecord ? next_tfrecord(record) : next_recordio(record);
}

bool RecordReader::next_tfrecord(Record& record) {
  std::array<char, kTfRecordHeaderBytes> header;
  if (!read_header(header.data(), header.size(), /*may_end=*/true)) return false;
  record.size = tfrecord_length({header.data(), header.size()});
  read_data(record.size, record);
  std::array<char, kTfRecordTrailerBytes> trailer;
  fill(trailer.data(), trailer.size());
  if (record.fault.empty() &&
      !has_tfrecord_checksum(record.bytes, {trailer.data(), trailer.size()}))
    record.fault = "its checksum (CRC-32C) is wrong";
  return true;
}

bool RecordReader::next_recordio(Record& record) {
  RecordPart part;
  for (bool is_inside = false; !is_inside || !part.is_last(); is_inside = true) {
    std::array<char, kRecordIoHeaderBytes> header;
    if (!read_header(header.data(), header.size(), /*may_end=*/!is_inside)) return false;
    part = recordio_part({header.data(), header.size()}, is_inside);
    if (is_inside) {
      record.size += sizeof kRecordIoMagic;
      if (record.fault.empty()) record.bytes += magic_bytes();
    }
    record.size += part.size;
    read_data(part.size, record);
    skip(part.padded_size() - part.size);
  }
  return true;
}

// False if the source ends here and `may_end` is true. Throws RecordFault if it ends anywhere else.
bool RecordReader::read_header(char* target, std::size_t size, bool may_end) {
  const std::size_t got = source_.read(target, size);
  offset_ += got;
  if (got == 0 && may_end) return false;
  fill(target + got, size - got);
  return true;
}

// Appends `size` bytes to the record, or skips them if the record is too large or has a fault
// already.
void RecordReader::read_data(std::uint64_t size, Record& record) {
  if (record.fault.empty() && record.size > max_bytes_) {
    record.fault = "it is larger than " + std::to_string(max_bytes_ >> 20) + " MiB";
    record.bytes = {};
  }
  if (!record.fault.empty()) return skip(size);
  while (size > 0) {
    const std::size_t portion = std::min<std::uint64_t>(size, kPortion);
    const std::size_t before = record.bytes.size();
    record.bytes.resize(before + portion);
    fill(record.bytes.data() + before, portion);
    size -= portion;
  }
}

void RecordReader::skip(std::uint64_t size) {
  std::array<char, 4096> passed;
  while (size > 0) {
    const std::size_t portion = std::min<std::uint64_t>(size, passed.size());
    fill(passed.data(), portion);
    size -= portion;
  }
}

void RecordReader::fill(char* target, std::size_t size) {
  while (size > 0) {
    const std::size_t got = source_.read(target, size);
    if (got == 0) {
      throw RecordFault("it ends after " + std::to_string(offset_) +
                        " bytes, in the middle of a record");
    }
    target += got;
    size -= got;
    offset_ += got;
  }
}

std::string recordio_record(std::string_view data) {
  if (data.size() > kMaxPartBytes) throw InternalError("a RecordIO record is too large");
  const std::string magic = magic_bytes();
  std::string record;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end, RecordPart::Kind kind) {
    const std::string_view part = data.substr(begin, end - begin);
    record += magic + little_endian(static_cast<std::uint64_t>(kind) << 29 | part.size(), 4);
    record += part;
    record.resize((record.size() + 3) & ~std::size_t{3});
  };
  for (std::size_t at = data.find(magic); at != data.npos; at = data.find(magic, at + 1)) {
    if (at % 4 != 0) continue;
    add(at, begin == 0 ? RecordPart::Kind::kFirst : RecordPart::Kind::kMiddle);
    begin = at + magic.size();
  }
  add(data.size(), begin == 0 ? RecordPart::Kind::kWhole : RecordPart::Kind::kLast);
  return record;
}

}  // namespace kiln
