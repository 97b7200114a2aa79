#include "data/archive/record_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/tfrecord.h"
#include "data/archive/text_source.h"

namespace kiln {
namespace {

std::vector<Record> all_of(const std::string& bytes, RecordFormat format, std::size_t at_once = 7,
                           std::uint64_t max_bytes = kMaxRecordBytes) {
  TextSource source(bytes, at_once);
  RecordReader reader(source, format, max_bytes);
  std::vector<Record> records;
  for (Record record; reader.next(record);) records.push_back(record);
  EXPECT_EQ(reader.offset(), bytes.size());
  return records;
}

std::string record_fault(const std::string& bytes, RecordFormat format) {
  try {
    all_of(bytes, format);
    return "";
  } catch (const RecordFault& fault) {
    return fault.what();
  }
}

const std::string kMagic = little_endian(kRecordIoMagic, 4);

TEST(RecordReader, ReadsTfRecordsWhateverPiecesTheyComeIn) {
  const std::string big(5000, 'x');
  const std::string bytes = tfrecord("one") + tfrecord("") + tfrecord(big);
  for (const std::size_t at_once : {1, 7, 100'000}) {
    const std::vector<Record> records = all_of(bytes, RecordFormat::kTfRecord, at_once);
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(records[0].bytes, "one");
    EXPECT_EQ(records[1].bytes, "");
    EXPECT_EQ(records[2].bytes, big);
    EXPECT_EQ(records[2].offset, 16 + 3 + 16U);
    EXPECT_EQ(records[2].fault, "");
  }
}

TEST(RecordReader, AWrongChecksumSpoilsOneRecordOnly) {
  std::string bytes = tfrecord("one") + tfrecord("two") + tfrecord("three");
  bytes[19 + 12] ^= 1;
  const std::vector<Record> records = all_of(bytes, RecordFormat::kTfRecord);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].fault, "");
  EXPECT_EQ(records[1].fault, "its checksum (CRC-32C) is wrong");
  EXPECT_EQ(records[2].bytes, "three");
}

TEST(RecordReader, AWrongLengthEndsTheFile) {
  std::string bytes = tfrecord("one") + tfrecord("two");
  bytes[19] ^= 1;
  EXPECT_NE(record_fault(bytes, RecordFormat::kTfRecord).find("length"), std::string::npos);
}

TEST(RecordReader, EveryTruncationIsToldOrIsTheEndOfARecord) {
  for (const RecordFormat format : {RecordFormat::kTfRecord, RecordFormat::kRecordIo}) {
    const bool is_tf = format == RecordFormat::kTfRecord;
    const std::string first = is_tf ? tfrecord("one") : recordio_record("one");
    const std::string bytes = first + (is_tf ? tfrecord("2") : recordio_record("ab" + kMagic));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::string fault = record_fault(bytes.substr(0, size), format);
      EXPECT_EQ(fault.empty(), size == 0 || size == first.size()) << size;
      EXPECT_TRUE(fault.empty() || fault.ends_with("in the middle of a record")) << fault;
    }
  }
}

TEST(RecordReader, ALargeRecordIsPassedOver) {
  for (const RecordFormat format : {RecordFormat::kTfRecord, RecordFormat::kRecordIo}) {
    const bool is_tf = format == RecordFormat::kTfRecord;
    const std::string large(10'000, 'x');
    const std::string bytes = is_tf ? tfrecord(large) + tfrecord("small")
                                    : recordio_record(large) + recordio_record("small");
    const std::vector<Record> records = all_of(bytes, format, 100, /*max_bytes=*/9'999);
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(records[0].size, large.size());
    EXPECT_NE(records[0].fault.find("larger than"), std::string::npos);
    EXPECT_EQ(records[0].bytes, "");
    EXPECT_EQ(records[1].bytes, "small");
  }
}

// The length says 2^60 bytes, and its checksum is right.
TEST(RecordReader, AHostileLengthTakesNoMemory) {
  const std::string length = little_endian(1ULL << 60, 8);
  const std::string bytes = length + little_endian(masked_crc32c(crc32c(length)), 4) + "abc";
  EXPECT_NE(record_fault(bytes, RecordFormat::kTfRecord).find("ends after 15 bytes"),
            std::string::npos);
  const std::string part = kMagic + little_endian((1U << 29) - 1, 4) + "abc";
  EXPECT_NE(record_fault(part, RecordFormat::kRecordIo).find("ends after 11 bytes"),
            std::string::npos);
}

TEST(RecordReader, ReadsRecordIoWithItsPartsJoined) {
  const std::string data = "abcd" + kMagic + "xyz" + kMagic + "1" + kMagic + kMagic + "efg";
  const std::string bytes = recordio_record("one") + recordio_record(data) + recordio_record("");
  for (const std::size_t at_once : {1, 5, 4096}) {
    const std::vector<Record> records = all_of(bytes, RecordFormat::kRecordIo, at_once);
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(records[0].bytes, "one");
    EXPECT_EQ(records[1].bytes, data);
    EXPECT_EQ(records[1].size, data.size());
    EXPECT_EQ(records[1].offset, 12U);
    EXPECT_EQ(records[2].bytes, "");
  }
}

// No reader may find the magic at a multiple of four where no part begins.
TEST(RecordReader, TheMagicIsNeverWithinAPart) {
  for (std::size_t lead = 0; lead < 9; ++lead) {
    const std::string data = std::string(lead, 'x') + kMagic + kMagic + "tail" + kMagic;
    const std::string bytes = recordio_record(data);
    std::size_t num_parts = 0;
    for (std::size_t at = 0; at < bytes.size(); at += 4)
      num_parts += bytes.substr(at, 4) == kMagic ? 1 : 0;
    EXPECT_EQ(num_parts, lead % 4 == 0 ? 4U : 1U);
    EXPECT_EQ(all_of(bytes, RecordFormat::kRecordIo)[0].bytes, data);
  }
}

TEST(RecordReader, PartsOutOfOrderAreRefused) {
  const auto part = [](std::uint64_t kind) {
    return kMagic + little_endian(kind << 29 | 4, 4) + "data";
  };
  EXPECT_EQ(record_fault(part(1) + part(2) + part(3), RecordFormat::kRecordIo), "");
  EXPECT_NE(record_fault(part(2), RecordFormat::kRecordIo), "");
  EXPECT_NE(record_fault(part(3), RecordFormat::kRecordIo), "");
  EXPECT_NE(record_fault(part(1) + part(0), RecordFormat::kRecordIo), "");
  EXPECT_NE(record_fault(part(1) + part(1), RecordFormat::kRecordIo), "");
  EXPECT_NE(record_fault(part(5), RecordFormat::kRecordIo), "");
  EXPECT_NE(record_fault("XXXX" + part(0), RecordFormat::kRecordIo), "");
}

TEST(RecordReader, TheFirstBytesTellTheFormat) {
  EXPECT_EQ(record_format(tfrecord("abc")), RecordFormat::kTfRecord);
  EXPECT_EQ(record_format(recordio_record("")), RecordFormat::kRecordIo);
  EXPECT_EQ(record_format("\xff\xd8\xff\xe0 a JPEG file"), std::nullopt);
  EXPECT_EQ(record_format(""), std::nullopt);
  EXPECT_EQ(record_format(tfrecord("abc").substr(0, 11)), std::nullopt);
}

}  // namespace
}  // namespace kiln
