#include "data/archive/record_reader.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/tfrecord.h"

namespace kiln {
namespace {

ProtoMessage bytes_list(const std::vector<std::string>& values) {
  ProtoMessage list;
  for (const std::string& value : values) list.text(1, value);
  return ProtoMessage().message(1, list);
}

ProtoMessage packed_labels(const std::string& varints) {
  return ProtoMessage().message(3, ProtoMessage().text(1, varints));
}

struct NamedFeature {
  std::string key;
  ProtoMessage value;
};

std::string example(const std::vector<NamedFeature>& features) {
  ProtoMessage map;
  for (const auto& [key, value] : features)
    map.message(1, ProtoMessage().text(1, key).message(2, value));
  return ProtoMessage().message(1, map).bytes();
}

RecordContents parsed(const std::string& data, const RecordKeys& keys = {}) {
  return image_record(data, RecordFormat::kTfRecord, keys);
}

std::string fault_of(const std::string& data, RecordFormat format = RecordFormat::kTfRecord) {
  try {
    image_record(data, format);
    return "";
  } catch (const RecordFault& fault) {
    return fault.what();
  }
}

TEST(Example, ComesBackAsItWasWritten) {
  const RecordContents image{
      .name = "a/b.jpg", .bytes = std::string(500, '\0') + "x", .labels = {7}, .class_text = "cat"};
  const RecordContents read = parsed(example_of(image, "jpeg"));
  EXPECT_EQ(read.name, image.name);
  EXPECT_EQ(read.bytes, image.bytes);
  EXPECT_EQ(read.labels, image.labels);
  EXPECT_EQ(read.class_text, image.class_text);
}

TEST(Example, LabelsMayBePackedAndFeaturesInAnyOrder) {
  const RecordContents read =
      parsed(example({{"image/encoded", bytes_list({"IMG"})},
                      {"other", packed_labels("\x05")},
                      {"image/class/label", packed_labels("\xAC\x02\x01")}}));
  EXPECT_EQ(read.bytes, "IMG");
  EXPECT_EQ(read.labels, (std::vector<std::int64_t>{300, 1}));
  EXPECT_EQ(read.class_text, "");
}

TEST(Example, KeysMayBeOthers) {
  const std::string data = example({{"img", bytes_list({"IMG"})}, {"y", packed_labels("\x05")}});
  EXPECT_EQ(parsed(data, {.image = "img", .label = "y"}).labels, std::vector<std::int64_t>{5});
  EXPECT_EQ(fault_of(data),
            "it has no feature 'image/encoded', only 'img', 'y' (--record-keys selects others)");
}

TEST(Example, UnknownFieldsArePassedOver) {
  const std::string data = ProtoMessage().integer(9, 1).real(8, 1).small_real(7, 1).bytes() +
                           example({{"image/encoded", bytes_list({"IMG"})}});
  EXPECT_EQ(parsed(data).bytes, "IMG");
}

TEST(Example, SaysWhatItCannotUse) {
  EXPECT_NE(fault_of("").find("no tf.train.Example"), std::string::npos);
  EXPECT_NE(fault_of("\x0b").find("not a tf.train.Example"), std::string::npos);
  EXPECT_NE(fault_of("\xff\xd8\xff\xe0").find("not a tf.train.Example"), std::string::npos);
  EXPECT_NE(fault_of(example({{"image/encoded", bytes_list({"a", "b"})}})).find("several images"),
            std::string::npos);
  EXPECT_NE(fault_of(example({{"image/encoded", bytes_list({})}})).find("no image"),
            std::string::npos);
  EXPECT_NE(fault_of(example({{"image/encoded", packed_labels("\x01")}})).find("not a bytes list"),
            std::string::npos);
  EXPECT_NE(fault_of(example({{"image/class/label", bytes_list({"7"})}})).find("not an int64 list"),
            std::string::npos);
  EXPECT_NE(fault_of(example({{"image/class/text", bytes_list({std::string(5000, 'x')})}}))
                .find("more than 4096 bytes"),
            std::string::npos);
  EXPECT_NE(fault_of(example({{"image/class/label", packed_labels(std::string(70'000, '\x01'))}}))
                .find("more than 65536 values"),
            std::string::npos);
}

TEST(Example, EveryTruncationAndEveryChangedByteIsReadOrRefused) {
  const std::string data =
      example_of({.name = "n", .bytes = "IMAGE", .labels = {3}, .class_text = "cat"}, "png");
  for (std::size_t size = 0; size < data.size(); ++size)
    EXPECT_NE(fault_of(data.substr(0, size)), "");
  for (std::size_t at = 0; at < data.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = data;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      fault_of(changed);
    }
  }
}

TEST(RecordIoImage, HasOneLabelOrSeveral) {
  const RecordContents one = image_record(recordio_image_of("IMG", 7, 3), RecordFormat::kRecordIo);
  EXPECT_EQ(one.bytes, "IMG");
  EXPECT_EQ(one.labels, std::vector<std::int64_t>{7});
  const auto real = [](float value) {
    return little_endian(std::bit_cast<std::uint32_t>(value), 4);
  };
  const std::string several =
      little_endian(2, 4) + real(0) + std::string(16, '\0') + real(4) + real(9) + "IMG";
  const RecordContents two = image_record(several, RecordFormat::kRecordIo);
  EXPECT_EQ(two.labels, (std::vector<std::int64_t>{4, 9}));
  EXPECT_EQ(two.bytes, "IMG");
}

TEST(RecordIoImage, SaysWhatItCannotUse) {
  const auto fault = [](const std::string& data) {
    return fault_of(data, RecordFormat::kRecordIo);
  };
  const auto real = [](float value) {
    return little_endian(std::bit_cast<std::uint32_t>(value), 4);
  };
  EXPECT_NE(fault("short").find("shorter"), std::string::npos);
  EXPECT_NE(fault(little_endian(3, 4) + std::string(31, '\0')).find("more labels"),
            std::string::npos);
  EXPECT_NE(fault(little_endian(0xFFFFFFFF, 4) + std::string(31, '\0')).find("more labels"),
            std::string::npos);
  for (const float label : {0.5F, 1e30F, -INFINITY, NAN})
    EXPECT_NE(
        fault(little_endian(0, 4) + real(label) + std::string(16, '\0')).find("not an integer"),
        std::string::npos);
}

}  // namespace
}  // namespace kiln
