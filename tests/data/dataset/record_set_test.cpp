// Images in record files: the classes of good ones, and the errors of bad ones.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/tfrecord.h"
#include "data/archive/record_reader.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_source.h"
#include "data/image/image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

// As TFRecord.
std::string example(const std::string& image, std::int64_t label, const std::string& text = "") {
  return tfrecord(
      example_of({.name = "", .bytes = image, .labels = {label}, .class_text = text}, ""));
}

std::string im2rec(const std::string& image, std::int64_t label) {
  return recordio_record(recordio_image_of(image, label, 7));
}

class RecordSet : public testing::Test {
 protected:
  Dataset read(const std::string& name, const std::string& bytes, RecordOptions options = {}) {
    scratch_.put(name, bytes);
    return read_labeled_dataset(scratch_ / name, "Data", options);
  }
  void expect_fault(const std::string& name, const std::string& bytes, const std::string& expected,
                    const RecordOptions& options = {}) {
    const Error error = error_of([&] { read(name, bytes, options); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset) << error.message();
    EXPECT_NE(error.message().find(expected), std::string::npos) << error.message();
  }
  static std::string image(const Dataset& set, std::size_t i) {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    return bytes;
  }
  static std::vector<int> labels(const Dataset& set) {
    std::vector<int> labels;
    for (const Sample& item : set.samples) labels.push_back(item.label);
    return labels;
  }
  RecordOptions with_classes(const std::string& lines) {
    scratch_.put("names.lst", lines);
    return {.classes_file = scratch_ / "names.lst"};
  }
  ScratchFolder scratch_;
};

TEST_F(RecordSet, TfRecordsHaveTheClassesOfTheirTexts) {
  const std::string big = std::string(100'000, 'b');
  const Dataset set =
      read("a.tfrecord", example("aa", 2, "dog") + example(big, 1, "cat") + example("", 2, "dog"));
  EXPECT_EQ(set.kind, Dataset::Kind::kRecords);
  EXPECT_EQ(set.classes, (Texts{"cat", "dog"}));
  EXPECT_EQ(labels(set), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(image(set, 0), "aa");
  EXPECT_EQ(image(set, 1), big);
  EXPECT_EQ(image(set, 2), "");
  EXPECT_EQ(set.samples.file_name(1), "000000001.jpg");
  std::string first;
  read_first_bytes(set, 1, 10, first);
  EXPECT_EQ(first, "bbbbbbbbbb");
}

TEST_F(RecordSet, NumbersAreNamesWhereNothingElseIs) {
  EXPECT_EQ(read("a.tfrecords", example("a", 3) + example("b", 1)).classes, (Texts{"1", "3"}));
  EXPECT_EQ(read("b.rec", im2rec("a", 2) + im2rec("b", 0)).classes, (Texts{"0", "2"}));
}

TEST_F(RecordSet, RecordIoIsReadInPlaceAndInParts) {
  const std::string magic = little_endian(kRecordIoMagic, 4);
  const std::string split = magic + "abcd" + magic + "x";  // behind a header of 24 bytes
  const Dataset set = read("a.rec", im2rec("plain", 0) + im2rec(split, 1) + im2rec("z", 1));
  ASSERT_EQ(set.samples.size(), 3U);
  EXPECT_EQ(set.samples.member(0)->packing, ArchiveMember::Packing::kPlain);
  EXPECT_EQ(set.samples.member(1)->packing, ArchiveMember::Packing::kParts);
  EXPECT_EQ(image(set, 0), "plain");
  EXPECT_EQ(image(set, 1), split);
  EXPECT_EQ(image(set, 2), "z");
  EXPECT_EQ(labels(set), (std::vector<int>{0, 1, 1}));
}

TEST_F(RecordSet, ManifestsHaveTheirLabelsAfterTheImages) {
  const std::string png = "\x89PNG\r\n\x1a\n image", jpeg = "\xff\xd8\xff image";
  const std::string magic = little_endian(kRecordIoMagic, 4);
  const std::string split = "\xff\xd8\xff\xe0" + magic + "image";
  const auto pair = [](const std::string& bytes, const std::string& label) {
    return recordio_record(bytes) + recordio_record(label);
  };
  const Dataset names =
      read("a.rec", pair(png, "\"dog\"\n") + pair(split, "\"cat\"") + pair(jpeg, " \"dog\""));
  EXPECT_EQ(names.classes, (Texts{"cat", "dog"}));
  EXPECT_EQ(labels(names), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(image(names, 0), png);
  EXPECT_EQ(image(names, 1), split);
  EXPECT_EQ(image(names, 2), jpeg);
  EXPECT_EQ(names.samples.file_name(0), "000000000.png");
  const Dataset numbers = read("a.rec", pair(png, "2") + recordio_record(jpeg) + pair(jpeg, "1"));
  EXPECT_EQ(numbers.classes, (Texts{"1", "2"}));
  EXPECT_TRUE(numbers.first_label);
  EXPECT_EQ(labels(numbers), (std::vector<int>{1, 0}));  // one image has no label
  EXPECT_EQ(image(numbers, 1), jpeg);
  EXPECT_EQ(read("a.rec", pair(png, "0") + recordio_record(jpeg)).samples.size(), 1U);
  const std::size_t second = pair(png, "0").size();
  scratch_.put("b.idx", "0\t0\n1\t" + std::to_string(recordio_record(png).size()) + "\n2\t" +
                            std::to_string(second) + "\n3\t" +
                            std::to_string(second + recordio_record(png).size()) + "\n");
  EXPECT_EQ(read("b.rec", pair(png, "0") + pair(png, "1")).samples.size(), 2U);
  expect_fault("a.rec", pair(png, std::string(5000, '1')), "its label has more than 4096 bytes");
  expect_fault("a.rec", pair(png, "1").substr(0, recordio_record(png).size() + 9),
               "in the middle of a record");
  expect_fault("a.rec", pair(png, "\"\xff\""), "not UTF-8");
}

TEST_F(RecordSet, FilesOfAFolderBelongTogether) {
  scratch_.put("train-00000-of-00003", example("a", 1));
  scratch_.put("train-00001-of-00003", example("b", 2));
  scratch_.put("classes.txt", "cat\ndog\n");
  const Dataset set = read_labeled_dataset(scratch_.path(), "Data");
  EXPECT_EQ(set.classes, (Texts{"cat", "dog"}));
  EXPECT_EQ(set.first_label, 1);
  EXPECT_EQ(labels(set), (std::vector<int>{0, 1}));
  EXPECT_EQ(set.samples.file_name(1), "train-00001-of-00003/000000000.jpg");
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("2 of the 3 files"), std::string::npos);
  scratch_.put("validation-00000-of-00001", example("c", 1));
  EXPECT_NE(
      error_of([&] { read_dataset(scratch_.path(), "Data"); }).message().find("several datasets"),
      std::string::npos);
}

TEST_F(RecordSet, TrainingAndTestImagesInOneFolderAreRefused) {
  scratch_.put("train.tfrecord", example("a", 1));
  scratch_.put("test.tfrecord", example("b", 2));
  const Error error = error_of([&] { read_dataset(scratch_.path(), "Data"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
  EXPECT_NE(error.message().find("'test.tfrecord' and 'train.tfrecord'"), std::string::npos);
}

TEST_F(RecordSet, TwoExportsInOneFolderAreRefused) {
  scratch_.put("train-00000-of-00002", example("a", 1));
  scratch_.put("train-00001-of-00002", example("b", 2));
  scratch_.put("train-00000-of-00003", example("a", 1));
  const std::string text = error_of([&] { read_dataset(scratch_.path(), "Data"); }).message();
  for (const char* name : {"'train-00000-of-00002'", "'train-00000-of-00003'"})
    EXPECT_NE(text.find(name), std::string::npos) << text;
}

TEST_F(RecordSet, AFileOfNamesTellsWhereNumbersBegin) {
  const RecordOptions names = with_classes("cat\ndog\nelk\n");
  EXPECT_EQ(labels(read("a.rec", im2rec("a", 3) + im2rec("b", 1), names)),
            (std::vector<int>{2, 0}));
  EXPECT_EQ(labels(read("a.rec", im2rec("a", 2) + im2rec("b", 0), names)),
            (std::vector<int>{2, 0}));
  expect_fault("a.rec", im2rec("a", 2) + im2rec("b", 1), "--first-label 0", names);
  RecordOptions given = names;
  given.first_label = 1;
  const Dataset clear = read("a.rec", im2rec("a", 2) + im2rec("b", 1), given);
  EXPECT_EQ(labels(clear), (std::vector<int>{1, 0}));
  EXPECT_TRUE(clear.notes.empty());
  EXPECT_EQ(clear.classes, (Texts{"cat", "dog", "elk"}));
  expect_fault("a.rec", im2rec("a", 4) + im2rec("b", 1), "has label 4, but --classes", names);
  expect_fault("a.rec", im2rec("a", 3) + im2rec("b", 0), "3 classes", names);
  expect_fault("a.rec", im2rec("a", 0), "label 0", given);
  expect_fault("a.rec", im2rec("a", 0), "Use distinct names", with_classes("cat\ncat\n"));
  expect_fault("a.rec", im2rec("a", 0), "is empty", with_classes(""));
}

TEST_F(RecordSet, TextsFindTheirLineWhateverTheNumber) {
  const RecordOptions names = with_classes("elk\ndog\ncat\n");
  const Dataset set = read("a.tfrecord", example("a", 5, "cat") + example("b", 9, "elk"), names);
  EXPECT_EQ(set.classes, (Texts{"elk", "dog", "cat"}));
  EXPECT_EQ(labels(set), (std::vector<int>{2, 0}));
}

TEST_F(RecordSet, ClassesAreGivenToNamedSetsToo) {
  scratch_.put("photos/cat/1.jpg");
  scratch_.put("photos/elk/2.jpg");
  const RecordOptions names = with_classes("elk\ndog\ncat\n");
  const Dataset set = read_labeled_dataset(scratch_ / "photos", "Data", names);
  EXPECT_EQ(set.classes, (Texts{"elk", "dog", "cat"}));
  EXPECT_EQ(labels(set), (std::vector<int>{2, 0}));
  const Error fault = error_of(
      [&] { read_labeled_dataset(scratch_ / "photos", "Data", with_classes("elk\ndog\n")); });
  EXPECT_NE(fault.message().find("1 class is not in --classes"), std::string::npos)
      << fault.message();
}

TEST_F(RecordSet, SourcesWithDifferentClassesAreRefused) {
  scratch_.put("x/a.tfrecord", example("a", 1, "cat"));
  scratch_.put("x/b.tfrecord", example("a", 2, "cat"));
  const std::string fault = error_of([&] { read_dataset(scratch_ / "x", "Data"); }).message();
  EXPECT_NE(fault.find("number 1 is 'cat' in 'a.tfrecord', but number 2 is 'cat' in 'b.tfrecord'"),
            std::string::npos)
      << fault;
  scratch_.put("y/a.tar");
  scratch_.put("y/b.tfrecord", example("a", 2, "cat"));
  EXPECT_NE(error_of([&] { read_dataset(scratch_ / "y", "Data"); }).message().find("record files"),
            std::string::npos);
}

TEST_F(RecordSet, AWrongChecksumIsABadImage) {
  const std::string good = example(std::string(50, 'a'), 1, "cat");
  std::string bad_image = good, bad_label = good;
  bad_image[bad_image.size() - 10] ^= 1;
  for (std::size_t at = 12; at < good.size() - 4; ++at) {
    bad_label = good;
    bad_label[at] = static_cast<char>(bad_label[at] ^ 0x80);
    Dataset set;
    // The name or the number of its class may have become another.
    try {
      set = read("a.tfrecord", good + bad_label + bad_image + good);
    } catch (const Error& fault) {
      EXPECT_NE(fault.message().find("different classes"), std::string::npos) << fault.message();
      continue;
    }
    ASSERT_EQ(set.samples.size(), 4U) << at;
    EXPECT_EQ(image(set, 0), std::string(50, 'a'));
    EXPECT_THROW(image(set, 1), ImageFault) << at;
    EXPECT_THROW(image(set, 2), ImageFault);
    EXPECT_EQ(image(set, 3), std::string(50, 'a'));
  }
}

TEST_F(RecordSet, DamagedFilesAreRefused) {
  const std::string bytes = example("one", 1) + example("two", 2);
  expect_fault("a.tfrecord", bytes.substr(0, bytes.size() - 1), "in the middle of a record");
  expect_fault("a.tfrecord", "", "it is empty");
  expect_fault("a.rec", "no records at all", "like neither TFRecord nor RecordIO");
  expect_fault("a.rec", im2rec("a", 1) + "xxxxxxxx", "magic");
  expect_fault("a.rec", im2rec("a", 1).substr(0, 30), "in the middle of a record");
  expect_fault("a.tfrecord", tfrecord("no example"), "record 0 (counted from 0)");
  expect_fault("a.tfrecord", example("a", 100'000), "at most 100000 classes");
}

TEST_F(RecordSet, HostileLengthsTakeNoMemory) {
  const std::string length = little_endian(1ULL << 60, 8);
  expect_fault("a.tfrecord", length + little_endian(masked_crc32c(crc32c(length)), 4) + "abc",
               "in the middle of a record");
  expect_fault("a.rec", little_endian(kRecordIoMagic, 4) + little_endian((1U << 29) - 1, 4),
               "in the middle of a record");
}

// A hole of 2 GiB stands for an image that large.
TEST_F(RecordSet, ARecordOfTwoGigabytesIsABadImage) {
  const std::uint64_t image_size = 2ULL << 30;
  const auto counted = [](const std::string& tag, std::uint64_t size) {
    std::string bytes = tag;
    for (; size > 127; size >>= 7) bytes += static_cast<char>(size | 128U);
    return bytes + static_cast<char>(size);
  };
  const std::string value = counted("\x0a", image_size);
  const std::string list = counted("\x0a", value.size() + image_size) + value;
  const std::string feature = counted("\x12", list.size() + image_size) + list;
  const std::string key = counted("\x0a", 13) + "image/encoded";
  const std::string entry =
      counted("\x0a", key.size() + feature.size() + image_size) + key + feature;
  const std::string data = counted("\x0a", entry.size() + image_size) + entry;
  const std::string length = little_endian(data.size() + image_size, 8);
  const std::string good = example("a", 1);
  const std::string start = good + length + little_endian(masked_crc32c(crc32c(length)), 4) + data;
  scratch_.put("a.tfrecord", start);
  fs::resize_file(scratch_ / "a.tfrecord", start.size() + image_size + 4);
  const Dataset set = read_every_image(scratch_ / "a.tfrecord", "Data");
  ASSERT_EQ(set.samples.size(), 2U);
  std::string bytes;
  EXPECT_THROW(read_image_bytes(set, 1, bytes), ImageFault);
  EXPECT_EQ(image(set, 0), "a");
}

TEST_F(RecordSet, SeveralLabelsAreToldAndNegativeOnesAreNone) {
  const std::string several =
      tfrecord(example_of({.name = "", .bytes = "a", .labels = {1, 0}, .class_text = ""}, ""));
  const Dataset set = read("a.tfrecord", several + example("b", -1) + example("c", 0));
  EXPECT_EQ(set.samples.size(), 2U);
  EXPECT_EQ(labels(set), (std::vector<int>{1, 0}));
  EXPECT_EQ(set.notes.size(), 2U);
  EXPECT_EQ(read_every_image(scratch_ / "a.tfrecord", "Data").samples.size(), 3U);
  EXPECT_EQ(error_of([&] { read("b.tfrecord", example("b", -1)); }).code(),
            ErrorCode::kNotLabeledDataset);
}

TEST_F(RecordSet, SeveralTextsAreToldAndOneClassForEachIsReadWhateverTheTask) {
  const auto feature = [](const char* key, const std::vector<std::string>& values) {
    ProtoMessage list;
    for (const std::string& value : values) list.text(1, value);
    return ProtoMessage().text(1, key).message(2, ProtoMessage().message(1, list));
  };
  const auto record = [&](const std::vector<std::string>& texts) {
    const ProtoMessage features = ProtoMessage()
                                      .message(1, feature("image/encoded", {"a"}))
                                      .message(1, feature("image/class/text", texts));
    return tfrecord(ProtoMessage().message(1, features).bytes());
  };
  const RecordOptions several = {.task = TaskKind::kMultiLabel};
  const std::string one = record({"cat"}), two = record({"dog", "cat"});
  const Dataset set = read("a.tfrecord", one + two);
  EXPECT_EQ(labels(set), (std::vector<int>{0, 1}));
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("'000000001.jpg'"), std::string::npos) << set.notes[0];
  EXPECT_TRUE(read("b.tfrecord", one, several).notes.empty());
  expect_fault("c.tfrecord", one + two, "--task multi-label", several);
  expect_fault("d.rec",
               recordio_record(little_endian(2, 4) + std::string(28, '\0') + "\xff\xd8\xff"),
               "--task multi-label", several);
}

TEST_F(RecordSet, AnIndexOfAnotherFileIsRefused) {
  const std::string first = im2rec("aaaaa", 0);
  scratch_.put("a.idx", "0\t0\n1\t" + std::to_string(first.size()) + "\n");
  EXPECT_EQ(read("a.rec", first + im2rec("b", 1)).samples.size(), 2U);
  expect_fault("a.rec", im2rec("a", 0) + im2rec("b", 1), "belongs to a different file");
  scratch_.put("a.idx", "0\t0\n");
  expect_fault("a.rec", first + im2rec("b", 1), "belongs to a different file");
  scratch_.put("a.idx", "no numbers\n");
  expect_fault("a.rec", first, "line 1 is not a key and an offset");
  scratch_.put("t.idx", "0 57\n");  // as other programs write it beside TFRecord
  EXPECT_EQ(read("t.tfrecord", example("a", 0)).samples.size(), 1U);
}

TEST_F(RecordSet, CompressedFilesAreUnpacked) {
  const std::string bytes = example("a", 0) + example("b", 1);
  const fs::path path = scratch_ / "a.tfrecord.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  const Dataset set = read_labeled_dataset(path, "Data");
  EXPECT_EQ(image(set, 1), "b");
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("is compressed"), std::string::npos);
}

// The length of such a record begins as gzip data do.
TEST_F(RecordSet, ALengthThatLooksCompressedIsNotUnpacked) {
  const std::size_t frame = example("", 1, "cat").size();
  std::string image_bytes;
  std::string bytes;
  for (std::size_t size = 0x8b1f - frame; bytes.substr(0, 2) != "\x1f\x8b"; ++size)
    bytes = example(image_bytes = std::string(size, 'x'), 1, "cat");
  const Dataset set = read("a.tfrecord", bytes);
  EXPECT_TRUE(set.notes.empty());
  EXPECT_EQ(image(set, 0), image_bytes);
}

}  // namespace
}  // namespace kiln
