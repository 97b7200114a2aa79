// An ImageDirectory or COCO folder in an archive is read by its list, as the unpacked folder is.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_source.h"
#include "data/dataset/listing.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

std::string line(const std::string& file, const std::string& label) {
  return R"({"image_info": {"file_name": ")" + file + R"("}, "category": ")" + label + "\"}\n";
}

const Files kDirectory = {
    {"images.lst", line("image/b.jpg", "cat") + line("./image//a.jpg", "dog")},
    {"_schema.json", schema_text({"dog", "cat"})},
    {"image/a.jpg", "a"},
    {"image/b.jpg", "b"},
    {"image/unlisted.jpg", "c"},
    {"image/b.cls", "dog"}};

const Files kCoco = {{"a.json", R"({"key": "of image a"})"},
                     {"a.jpg", "no"},
                     {"labels.json", R"({"images": [{"id": 7, "file_name": "image/b.jpg"},
                                                    {"id": 8, "file_name": "image/a.jpg"}],
                                         "annotations": [{"image_id": 7, "category_id": 1},
                                                         {"image_id": 8, "category_id": 0}],
                                         "categories": [{"id": 0, "name": "dog"},
                                                        {"id": 1, "name": "cat"}]})"},
                     {"image/a.jpg", "a"},
                     {"image/b.jpg", "b"}};

class ListedArchive : public testing::Test {
 protected:
  Dataset read(const Files& files, const std::string& top, const std::string& name = "a.tar") {
    std::string bytes;
    for (const auto& [file, content] : files) bytes += tar_member(top + file, content);
    scratch_.put(name, bytes + tar_end());
    return read_dataset(scratch_ / name.substr(0, name.find('/')), "Data");
  }
  ScratchFolder scratch_;
};

TEST_F(ListedArchive, IsReadByItsListWhereverItLies) {
  for (const Files& files : {kDirectory, kCoco})
    for (const std::string top : {"", "./", "top/", "very/deep/"})
      for (const std::string name : {"a.tar", "folder/a.tar"}) {
        const Dataset set = read(files, top, name);
        const bool is_directory = files == kDirectory;
        EXPECT_EQ(set.kind, is_directory ? Dataset::Kind::kImageDirectory : Dataset::Kind::kCoco);
        EXPECT_EQ(set.is_image_directory, is_directory);
        EXPECT_EQ(set.classes, (std::vector<std::string>{"dog", "cat"}));
        ASSERT_EQ(set.samples.size(), 2U);
        EXPECT_EQ(set.samples.label(0), 1);
        EXPECT_EQ(set.samples.label(1), 0);
        std::string bytes;
        read_image_bytes(set, 0, bytes);
        EXPECT_EQ(bytes, "b") << top;
        ASSERT_EQ(set.notes.size(), 1U);
        EXPECT_NE(set.notes[0].find(is_directory ? "'image/unlisted.jpg'" : "'a.jpg'"),
                  std::string::npos)
            << set.notes[0];
        EXPECT_EQ(is_directory ? read_image_list(set) : kDirectory[0].second, kDirectory[0].second);
      }
}

TEST_F(ListedArchive, ImagesThatAListOmitsAreNamedInFoldersToo) {
  for (const Files& files : {kDirectory, kCoco}) {
    const Dataset packed = read(files, "");
    const std::string root = files == kDirectory ? "directory/" : "coco/";
    for (const auto& [file, content] : files) scratch_.put(root + file, content);
    EXPECT_EQ(read_dataset(scratch_ / root, "Data").notes, packed.notes);
    EXPECT_EQ(read_every_image(scratch_ / root, "Data").notes, packed.notes);
  }
  scratch_.put("other/deep/3.png", "3");
  scratch_.put("directory/new/4.png", "4");
  scratch_.put("directory/.new/5.png", "5");
  std::filesystem::create_symlink("../../other", scratch_ / "directory/image/link");
  std::filesystem::create_symlink("..", scratch_ / "directory/image/loop");
  std::filesystem::create_symlink("../../other", scratch_ / "other/deep/loop");
  const Dataset set = read_dataset(scratch_ / "directory", "Data");
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_TRUE(set.notes[0].starts_with("images that are not in the list")) << set.notes[0];
  EXPECT_TRUE(
      set.notes[0].ends_with("3 ('image/link/deep/3.png', 'image/unlisted.jpg', 'new/4.png')"))
      << set.notes[0];
}

TEST_F(ListedArchive, AListThatIsNotOfAllImagesIsNoList) {
  Files files = {{"cat/1.jpg", "1"}, {"dog/2.jpg", "2"}};
  for (const auto& [name, content] : kDirectory)
    if (name == "images.lst" || name == "_schema.json") files.emplace_back("cat/" + name, content);
  EXPECT_EQ(read(files, "").classes, (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(ListedArchive, FaultsAreThoseOfTheFolder) {
  const auto fault_of = [&](Files files, std::size_t without) {
    files.erase(files.begin() + static_cast<std::ptrdiff_t>(without));
    return error_of([&] { read(files, "top/"); }).message();
  };
  EXPECT_NE(fault_of(kDirectory, 2).find("'./image//a.jpg' is missing (line 2)"),
            std::string::npos);
  EXPECT_NE(fault_of(kDirectory, 1).find("_schema.json cannot be read"), std::string::npos);
  EXPECT_NE(fault_of(kCoco, 4).find("'image/b.jpg' is missing"), std::string::npos);
}

TEST_F(ListedArchive, SeveralListsAreRefused) {
  read(kDirectory, "", "folder/a.tar");
  const Error error = error_of([&] { read(kDirectory, "", "folder/b.tar"); });
  EXPECT_NE(error.message().find("'a.tar' holds its own list"), std::string::npos)
      << error.message();
}

TEST_F(ListedArchive, ShardsSayThatTheyWereAnImageDirectory) {
  const Files shard = {{"1.jpg", "1"}, {"1.cls", "cat"}, {"2.jpg", "2"}, {"2.cls", "dog"}};
  EXPECT_FALSE(read(shard, "", "folder/a.tar").is_image_directory);
  scratch_.put("folder/source.txt", "class folders\n");
  EXPECT_FALSE(read(shard, "", "folder/a.tar").is_image_directory);
  scratch_.put("folder/source.txt", "ImageDirectory\n");
  const Dataset set = read(shard, "", "folder/a.tar");
  EXPECT_TRUE(set.is_image_directory);
  EXPECT_TRUE(part_of(set, {true, false}).is_image_directory);
  EXPECT_TRUE(dataset_of(to_bytes(set)).is_image_directory);
}

}  // namespace
}  // namespace kiln
