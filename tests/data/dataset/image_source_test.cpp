#include "data/dataset/image_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class ImageSource : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kiln-source-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text = "x") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  static std::vector<std::string> names_in(const Dataset& set) {
    std::vector<std::string> names;
    for (const Sample& sample : set.samples) names.emplace_back(sample.file_name);
    return names;
  }

  fs::path folder_;
};

using Names = std::vector<std::string>;

TEST_F(ImageSource, FoldersGiveEveryImageAtAnyDepth) {
  for (const char* name :
       {"loose.png", "cat/1.png", "cat/deep/er/2.png", "dog/3.png", "dog/note.txt"})
    write(name);
  const Dataset set = read_every_image(folder_, "Images");
  EXPECT_EQ(names_in(set), (Names{"loose.png", "cat/1.png", "cat/deep/er/2.png", "dog/3.png"}));
  EXPECT_EQ(set.classes, (Names{"cat", "dog"}));
  const TrueLabels labels(set, {"dog", "cat"});
  EXPECT_EQ((Names{labels.of(0), labels.of(1), labels.of(2), labels.of(3)}),
            (Names{"", "cat", "", "dog"}));
}

TEST_F(ImageSource, OneFileIsAnImageWhateverItsName) {
  write("photos/picture.dat");
  const Dataset set = read_every_image(folder_ / "photos/picture.dat", "Images");
  EXPECT_EQ(names_in(set), Names{"picture.dat"});
  EXPECT_EQ(set.root, folder_ / "photos");
}

TEST_F(ImageSource, SeveralPathsAreImageFiles) {
  write("a.png");
  write("photos/b.jpg");
  const Names files = {folder_ / "a.png", folder_ / "photos/b.jpg"};
  EXPECT_EQ(names_in(read_image_files(files, "Images")), files);
  for (const char* other : {"photos", "absent.png"})
    EXPECT_THROW(read_image_files({files[0], folder_ / other}, "Images"), Error) << other;
}

TEST_F(ImageSource, FoldersWithoutAClassOfTheModelAreNoLabels) {
  write("2023/1.png");
  write("2024/2.png");
  const Dataset set = read_every_image(folder_, "Images");
  const TrueLabels labels(set, {"cat", "dog"});
  EXPECT_FALSE(labels.any());
  EXPECT_EQ(labels.of(0), "");
  EXPECT_EQ(labels.unknown().num_images, 0);
}

TEST_F(ImageSource, LabelsThatTheModelDoesNotKnowAreCountedAndNamed) {
  for (const char* name : {"cat/1.png", "fox/2.png", "fox/3.png", "owl/4.png"}) write(name);
  const Dataset set = read_every_image(folder_, "Images");
  const TrueLabels labels(set, {"cat", "dog"});
  EXPECT_TRUE(labels.any());
  EXPECT_TRUE(labels.is_known(0));
  EXPECT_FALSE(labels.is_known(1));
  EXPECT_EQ(labels.of(1), "fox");
  EXPECT_EQ(labels.unknown().num_images, 3);
  EXPECT_EQ(labels.unknown().names, (Names{"fox", "owl"}));
}

TEST_F(ImageSource, ListsComeInPartsOfWholeLines) {
  write("list.txt", "a.png\r\n\nb c.png\n/d.png\ne.png");
  FileList list((folder_ / "list.txt").string(), "photos");
  Dataset set;
  ASSERT_TRUE(list.next(3, set));
  EXPECT_EQ(names_in(set), (Names{"a.png", "b c.png", "/d.png"}));
  EXPECT_EQ(set.root, "photos");
  EXPECT_TRUE(list.can_be_read_again());
  ASSERT_TRUE(list.next(3, set));
  EXPECT_EQ(names_in(set), Names{"e.png"});
  EXPECT_FALSE(list.next(3, set));
}

TEST_F(ImageSource, PathsMayEndWithZeroBytes) {
  using std::string_literals::operator""s;
  write("list", "a\n.png\0b.png\r\0\0c.png"s);
  FileList list((folder_ / "list").string(), "");
  Dataset set;
  ASSERT_TRUE(list.next(10, set));
  EXPECT_EQ(names_in(set), (Names{"a\n.png", "b.png\r", "c.png"}));
  write("mixed", std::string(70'000, '\n') + "a.png\nb.png\0"s);
  FileList mixed((folder_ / "mixed").string(), "");
  EXPECT_THROW(mixed.next(10, set), Error);
}

TEST_F(ImageSource, ListsGiveWhatIsThereWhileTheyGrow) {
  const fs::path pipe = folder_ / "pipe";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  fs::create_symlink("/proc/self/fd/" + std::to_string(ends[0]), pipe);
  FileList list(pipe.string(), "");
  EXPECT_FALSE(list.can_be_read_again());
  Dataset set;
  ASSERT_EQ(::write(ends[1], "a.png\nb.pn", 10), 10);
  ASSERT_TRUE(list.next(100, set));
  EXPECT_EQ(names_in(set), Names{"a.png"});
  ASSERT_EQ(::write(ends[1], "g\n", 2), 2);
  ASSERT_TRUE(list.next(100, set));
  EXPECT_EQ(names_in(set), Names{"b.png"});
  ::close(ends[1]);
  EXPECT_FALSE(list.next(100, set));
  ::close(ends[0]);
}

TEST_F(ImageSource, ListsOfOtherThingsAreRefused) {
  write("binary", std::string(100'000, 'x'));
  FileList list((folder_ / "binary").string(), "");
  Dataset set;
  EXPECT_THROW(list.next(10, set), Error);
  EXPECT_THROW(FileList((folder_ / "missing").string(), ""), Error);
}

}  // namespace
}  // namespace kiln
