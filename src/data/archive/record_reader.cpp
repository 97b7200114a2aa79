#include "data/archive/record_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/tfrecord.h"

namespace kiln {
namespace {

// A record's buffer grows by no more than this before its bytes have arrived.
constexpr std::size_t kReadPortion = 1 << 20;
constexpr std::uint32_t kMaxPartBytes = (1U << 29) - 1;

std::string magic_bytes() {
  return little_endian(kRecordIoMagic, 4);
}

constexpr std::size_t kMaxLabels = 1 << 16;
constexpr std::uint64_t kMaxTextBytes = 4096;  // of a key, class name or file name

// A range of bytes in a record's data.
struct Range {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t size() const { return end - begin; }
};

// Reads the fields of one Protocol Buffers message, inside whose range theirs always lie.
class MessageReader {
 public:
  enum Wire { kVarint = 0, kEightBytes = 1, kCounted = 2, kFourBytes = 5 };
  struct Field {
    std::uint64_t number = 0;
    Wire wire = kVarint;
    std::uint64_t value = 0;  // of kVarint only
    Range range;              // of the value; for kCounted, without its length
  };

  MessageReader(const RecordView& record, Range range) : record_(record), left_(range) {}

  bool next(Field& field) {
    if (left_.begin == left_.end) return false;
    const std::uint64_t tag = varint();
    field.number = tag >> 3;
    field.wire = static_cast<Wire>(tag & 7U);
    std::uint64_t size = 0;
    if (field.wire == kVarint)
      field.value = varint();
    else if (field.wire == kCounted)
      size = varint();
    else if (field.wire == kEightBytes || field.wire == kFourBytes)
      size = field.wire == kEightBytes ? 8 : 4;
    else
      fail();
    if (field.number == 0 || size > left_.size()) fail();
    field.range = {left_.begin, left_.begin + size};
    left_.begin += size;
    return true;
  }

  std::uint64_t varint() {
    const std::string_view bytes =
        record_.bytes(left_.begin, std::min<std::uint64_t>(kMaxVarintBytes, left_.size()));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      if (i == kMaxVarintBytes - 1 && byte > 1) break;  // more than 64 bits
      value |= static_cast<std::uint64_t>(byte & 127U) << 7 * i;
      if (byte < 128) {
        left_.begin += i + 1;
        return value;
      }
    }
    fail();
  }

  bool at_end() const { return left_.begin == left_.end; }

  [[noreturn]] static void fail() {
    throw RecordFault("it is not a tf.train.Example: its protocol buffer is damaged");
  }

 private:
  static constexpr std::size_t kMaxVarintBytes = 10;

  const RecordView& record_;
  Range left_;
};

using Field = MessageReader::Field;

// Calls `visit` with the range of each field with this number that is a message, a string or bytes.
template <typename Visit>
void for_each_counted(const RecordView& record, Range range, std::uint64_t number, Visit&& visit) {
  MessageReader reader(record, range);
  for (Field field; reader.next(field);)
    if (field.number == number && field.wire == MessageReader::kCounted) visit(field.range);
}

class ExampleReader {
 public:
  ExampleReader(const RecordView& record, const RecordKeys& keys) : record_(record), keys_(keys) {}

  RecordContents read() {
    for_each_counted(record_, {0, record_.size}, 1, [&](Range features) {
      for_each_counted(record_, features, 1, [&](Range entry) { read_entry(entry); });
    });
    if (!has_image_)
      throw RecordFault("it has no feature '" + keys_.image + "'" +
                        (seen_.empty() ? std::string(": no tf.train.Example with any features")
                                       : ", only " + seen_ + " (--record-keys selects others)"));
    return std::move(contents_);
  }

 private:
  // Reads an entry of the map of features: key and value, in any order.
  void read_entry(Range entry) {
    std::string key;
    Range value;
    MessageReader reader(record_, entry);
    for (Field field; reader.next(field);) {
      if (field.wire != MessageReader::kCounted) continue;
      if (field.number == 1) key = text(field.range, "the name of a feature");
      if (field.number == 2) value = field.range;
    }
    if (++num_seen_ <= kMaxSeen) seen_ += (seen_.empty() ? "'" : ", '") + key.substr(0, 80) + "'";
    if (num_seen_ == kMaxSeen + 1) seen_ += ", …";
    if (key == keys_.image) read_image(value);
    if (key == keys_.label) read_labels(value);
    if (key == keys_.text)
      contents_.class_text = read_text(key, value, &contents_.has_several_texts);
    if (key == keys_.name) contents_.name = read_text(key, value);
  }

  std::string text(Range range, const std::string& what) {
    if (range.size() > kMaxTextBytes) throw RecordFault(what + " has more than 4096 bytes");
    return std::string(record_.bytes(range.begin, range.size()));
  }

  // Returns the values of a feature that is a list of bytes, but at most two of them.
  std::vector<Range> byte_values(const std::string& key, Range feature) {
    std::vector<Range> values;
    MessageReader reader(record_, feature);
    for (Field field; reader.next(field);) {
      if (field.number != 1 || field.wire != MessageReader::kCounted)
        throw RecordFault("its feature '" + key + "' is not a bytes list");
      for_each_counted(record_, field.range, 1, [&](Range value) {
        if (values.size() == 2) values.pop_back();  // two are enough to tell that there are several
        values.push_back(value);
      });
    }
    return values;
  }

  void read_image(Range feature) {
    const std::vector<Range> values = byte_values(keys_.image, feature);
    if (values.size() != 1)
      throw RecordFault("its feature '" + keys_.image + "' has " +
                        (values.empty() ? "no image" : "several images"));
    contents_.image_begin = values[0].begin;
    contents_.image_size = values[0].size();
    has_image_ = true;
  }

  // Returns the first of the texts.
  std::string read_text(const std::string& key, Range feature, bool* are_several = nullptr) {
    const std::vector<Range> values = byte_values(key, feature);
    if (are_several != nullptr) *are_several = values.size() > 1;
    return values.empty() ? std::string() : text(values[0], "its feature '" + key + "'");
  }

  // Reads a list of int64, which is packed or value by value.
  void read_labels(Range feature) {
    contents_.labels.clear();
    MessageReader lists(record_, feature);
    for (Field list; lists.next(list);) {
      if (list.number != 3 || list.wire != MessageReader::kCounted)
        throw RecordFault("its feature '" + keys_.label + "' is not an int64 list");
      MessageReader values(record_, list.range);
      for (Field value; values.next(value);) {
        if (value.number != 1) continue;
        if (value.wire == MessageReader::kVarint) {
          add_label(value.value);
        } else if (value.wire == MessageReader::kCounted) {
          for (MessageReader packed(record_, value.range); !packed.at_end();)
            add_label(packed.varint());
        }
      }
    }
  }

  void add_label(std::uint64_t value) {
    if (contents_.labels.size() == kMaxLabels)
      throw RecordFault("its feature '" + keys_.label + "' has more than 65536 values");
    contents_.labels.push_back(static_cast<std::int64_t>(value));
  }

  static constexpr int kMaxSeen = 10;

  const RecordView& record_;
  const RecordKeys& keys_;
  RecordContents contents_;
  bool has_image_ = false;
  std::string seen_;  // names of the features, for the error message
  int num_seen_ = 0;
};

constexpr std::size_t kImageHeaderBytes = 24;

std::int64_t whole_label(std::string_view bytes) {
  const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(from_little_endian(bytes)));
  constexpr float kMost = 1 << 24;  // beyond that, floats cannot represent every integer
  if (!(std::abs(value) <= kMost) || value != std::floor(value))
    throw RecordFault("its label is not an integer");
  return static_cast<std::int64_t>(value);
}

ProtoMessage bytes_feature(std::string_view value) {
  return ProtoMessage().message(1, ProtoMessage().text(1, value));
}

}  // namespace

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
  const RecordPart part{.kind = static_cast<PartKind>(kind),
                        .size = static_cast<std::uint32_t>(word & kMaxPartBytes)};
  const bool continues = part.kind == PartKind::kMiddle || part.kind == PartKind::kLast;
  if (continues != is_inside)
    throw RecordFault(is_inside ? "a record begins before the previous one is complete"
                                : "a record does not begin with its first part");
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

// Appends `size` bytes to the record, or skips them if it is too large or has a fault already.
void RecordReader::read_data(std::uint64_t size, Record& record) {
  if (record.fault.empty() && record.size > max_bytes_) {
    record.fault = "it is larger than " + std::to_string(max_bytes_ >> 20) + " MiB";
    record.bytes = {};
  }
  if (!record.fault.empty()) return skip(size);
  while (size > 0) {
    const std::size_t portion = std::min<std::uint64_t>(size, kReadPortion);
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
    if (got == 0)
      throw RecordFault("it ends after " + std::to_string(offset_) +
                        " bytes, in the middle of a record");
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
  const auto add = [&](std::size_t end, PartKind kind) {
    const std::string_view part = data.substr(begin, end - begin);
    record += magic + little_endian(static_cast<std::uint64_t>(kind) << 29 | part.size(), 4);
    record += part;
    record.resize((record.size() + 3) & ~std::size_t{3});
  };
  for (std::size_t at = data.find(magic); at != data.npos; at = data.find(magic, at + 1)) {
    if (at % 4 != 0) continue;
    add(at, begin == 0 ? PartKind::kFirst : PartKind::kMiddle);
    begin = at + magic.size();
  }
  add(data.size(), begin == 0 ? PartKind::kWhole : PartKind::kLast);
  return record;
}

RecordView view_of(std::string_view data) {
  return {data.size(),
          [data](std::uint64_t offset, std::size_t count) { return data.substr(offset, count); }};
}

RecordContents parse_example(const RecordView& record, const RecordKeys& keys) {
  return ExampleReader(record, keys).read();
}

RecordContents parse_recordio_image(const RecordView& record) {
  if (record.size < kImageHeaderBytes) throw RecordFault("it is shorter than an image header");
  const std::string header(record.bytes(0, kImageHeaderBytes));
  const std::uint64_t num_labels = from_little_endian(header.substr(0, 4));
  RecordContents contents;
  if (num_labels == 0) {
    contents.labels.push_back(whole_label(std::string_view(header).substr(4, 4)));
  } else {
    if (num_labels > kMaxLabels || num_labels * 4 > record.size - kImageHeaderBytes)
      throw RecordFault("its header counts more labels than it has");
    contents.is_header = num_labels > 1 && record.size == kImageHeaderBytes + num_labels * 4;
    const std::string_view labels = record.bytes(kImageHeaderBytes, num_labels * 4);
    for (std::size_t i = 0; i < num_labels && !contents.is_header; ++i)
      contents.labels.push_back(whole_label(labels.substr(i * 4, 4)));
  }
  contents.image_begin = kImageHeaderBytes + num_labels * 4;
  contents.image_size = record.size - contents.image_begin;
  return contents;
}

bool is_bare_image(std::string_view data) {
  return data.starts_with("\xff\xd8\xff") || data.starts_with("\x89PNG");
}

std::string manifest_label(std::string_view json) {
  if (json.size() > kMaxTextBytes) throw RecordFault("its label has more than 4096 bytes");
  const std::string_view label = trimmed(json, "\" \n\r");
  if (label.starts_with('[') || label.starts_with('{'))
    throw RecordFault("its label is a list or an object in JSON, but must be a text or a number");
  return std::string(label);
}

RecordContents image_record(std::string_view data, RecordFormat format, const RecordKeys& keys) {
  const RecordView view = view_of(data);
  RecordContents contents =
      format == RecordFormat::kTfRecord ? parse_example(view, keys) : parse_recordio_image(view);
  contents.bytes = data.substr(contents.image_begin, contents.image_size);
  return contents;
}

std::string example_of(const RecordContents& image, std::string_view kind) {
  const RecordKeys keys;
  ProtoMessage features;
  const auto add = [&](const std::string& key, const ProtoMessage& feature) {
    features.message(1, ProtoMessage().text(1, key).message(2, feature));
  };
  // The image comes last, so that readers of labels need only the beginning.
  if (!image.labels.empty()) {
    ProtoMessage list;
    for (const std::int64_t label : image.labels) list.integer(1, label);
    add(keys.label, ProtoMessage().message(3, list));
  }
  if (!image.class_text.empty()) add(keys.text, bytes_feature(image.class_text));
  if (!image.name.empty()) add(keys.name, bytes_feature(image.name));
  if (!kind.empty()) add("image/format", bytes_feature(kind));
  add(keys.image, bytes_feature(image.bytes));
  return ProtoMessage().message(1, features).bytes();
}

std::string recordio_image_of(std::string_view image, std::int64_t label, std::uint64_t id) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(label));
  return little_endian(0, 4) + little_endian(bits, 4) + little_endian(id, 8) + little_endian(0, 8) +
         std::string(image);
}

}  // namespace kiln
