// The byte-order mark of some editors is no part of a text file, whichever reads it.
#include <gtest/gtest.h>

#include "data/archive/archive.h"
#include "data/dataset/image_source.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

const std::string kByteOrderMark = "\xef\xbb\xbf";

Dataset read(const std::filesystem::path& root, const RecordOptions& records = {}) {
  return read_labeled_dataset(root, "Data", records);
}

const std::vector<std::string> kClasses = {"cat", "dog"};

TEST(ByteOrderMarks, OfAnImageDirectoryAreRemoved) {
  const ScratchFolder folder;
  folder.put("1.jpg");
  folder.put("2.jpg");
  folder.put("cat/1.jpg");
  folder.put("dog/2.jpg");
  const std::string schema = read(folder.path()).schema_json;
  folder.put("_meta.yaml",
             kByteOrderMark + R"({"type": "ImageDirectory", "image_list": "list.txt"})");
  folder.put("_schema.json", kByteOrderMark + schema);
  const auto line = [](const std::string& number, const std::string& label) {
    return R"({"image_info": {"file_name": ")" + number + R"(.jpg"}, "category": ")" + label +
           R"(", "id": )" + number + "}\n";
  };
  folder.put("list.txt", kByteOrderMark + line("1", "cat") + line("2", "dog"));
  const Dataset set = read(folder.path());
  EXPECT_EQ(set.kind, Dataset::Kind::kImageDirectory);
  EXPECT_EQ(set.classes, kClasses);
  EXPECT_EQ(set.samples.size(), 2U);
}

TEST(ByteOrderMarks, OfACocoFileAreRemoved) {
  const ScratchFolder folder;
  folder.put("1.jpg");
  folder.put("labels.json", kByteOrderMark + R"({"images": [{"id": 1, "file_name": "1.jpg"}],
    "annotations": [{"image_id": 1, "category_id": 0}],
    "categories": [{"id": 0, "name": "cat"}]})");
  EXPECT_EQ(read(folder.path()).classes, std::vector<std::string>{"cat"});
}

TEST(ByteOrderMarks, OfLabelFilesAndListsOfClassesAreRemoved) {
  const ScratchFolder folder;
  folder.put("shards/a.tar", tar_member("1.cls", kByteOrderMark + "0") + tar_member("1.jpg", "1") +
                                 tar_member("2.cls", "1\r\n") + tar_member("2.jpg", "2") +
                                 tar_end());
  folder.put("shards/classes.txt", kByteOrderMark + "cat\r\ndog\r\n");
  EXPECT_EQ(read(folder / "shards").classes, kClasses);
  folder.put("images/dog/1.jpg");
  folder.put("names", kByteOrderMark + "cat\ndog");
  EXPECT_EQ(read(folder / "images", {.classes_file = folder / "names"}).classes, kClasses);
}

TEST(ByteOrderMarks, OfAListOfFilesAreRemoved) {
  const ScratchFolder folder;
  folder.put("list", kByteOrderMark + "a.jpg\n" + kByteOrderMark + "b.jpg\n");
  FileList list(folder / "list", {});
  Dataset set;
  ASSERT_TRUE(list.next(10, set));
  ASSERT_EQ(set.samples.size(), 2U);
  EXPECT_EQ(set.samples.file_name(0), "a.jpg");
  EXPECT_EQ(set.samples.file_name(1), kByteOrderMark + "b.jpg") << "only at the start";
}

}  // namespace
}  // namespace kiln
