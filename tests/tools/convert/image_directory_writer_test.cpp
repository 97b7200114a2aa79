// The output of `kiln convert`, byte for byte, and the targets that it refuses.
#include "tools/convert/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/system_calls.h"
#include "base/text.h"
#include "data/dataset/listing.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

void convert(const fs::path& input, const fs::path& output) {
  const Dataset set = read_dataset(input, "Input dataset");
  write_image_directory(set, take_image_output(output, input));
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void expect_equal_folders(const fs::path& expected, const fs::path& actual) {
  ASSERT_EQ(files_in(actual), files_in(expected));
  for (const std::string& file : files_in(expected)) {
    EXPECT_EQ(bytes_of(actual / file), bytes_of(expected / file)) << file;
  }
}

const std::string kUndecodable = "\xff\xd8\xff";  // the beginning of a JPEG

class WriterTest : public testing::Test {
 protected:
  WriterTest() {
    input_.put("cat/b.JPG", "\xff\xd8\xffmeow");  // is copied, but not published as a sample
    input_.put("cat/a.jpg", kPurr);
    input_.put("\u00e9l\u00e9phant/x.png", kToot);
  }
  void expect_refused(const fs::path& output, const std::string& what) {
    const std::vector<std::string> before = files_in(input_.path());
    const Error error = error_of([&] { convert(input_.path(), output); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedToWriteOutputs);
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    EXPECT_EQ(files_in(input_.path()), before);
  }
  const std::string kPurr = test::encode_jpeg(test::noise(2, 3));
  const std::string kToot = test::encode_png(test::noise(3, 2));
  ScratchFolder input_;
  ScratchFolder output_;
};

// The bytes of an image and its place, in place of the image.
ChangedImages numbered(const Dataset& set) {
  return {.contents =
              [&set](std::size_t i) {
                return std::to_string(i) + std::string(set.samples.file_name(i));
              },
          .num_threads = 4,
          .tell = {}};
}

TEST(ChangedImagesTest, KeepWhatTheListSays) {
  const ScratchFolder input, output;
  const std::string list =
      "{\"image_info\": {\"file_name\": \"image/a.b.jpg\", \"width\": 3, \"coco_url\": \"x\"}, "
      "\"category\": \"cat\", \"id\": 7, \"more\": [1, 2.5, null, true, \"\\u00fc\"]}\n"
      "\n"
      "{\"image_info\": {\"file_name\": \"top.jpeg\"}, \"category\": \"cat\", \"id\": 3}\n";
  input.put("_meta.yaml", meta_text());
  input.put("images.lst", list);
  input.put("_schema.json", schema_text({"cat"}));
  input.put("image/a.b.jpg", "x");
  input.put("top.jpeg", "y");
  const Dataset set = read_dataset(input.path(), "Input dataset");
  const fs::path folder = output.path() / "out";
  ImageDirectoryOutput(set, numbered(set), take_image_output(folder, input.path())).put_in_place();
  EXPECT_EQ(files_in(folder),
            (std::vector<std::string>{"_meta.yaml", "_samples.json", "_schema.json",
                                      "image/a.b.png", "images.lst", "top.png"}));
  EXPECT_EQ(bytes_of(folder / "image/a.b.png"), "0image/a.b.jpg");
  EXPECT_EQ(bytes_of(folder / "top.png"), "1top.jpeg");
  EXPECT_EQ(bytes_of(folder / "_schema.json"), set.schema_json);
  std::string expected = list;
  expected.replace(expected.find(".jpg"), 4, ".png");
  expected.erase(expected.find("\n\n"), 1);
  expected.erase(expected.find("\"width\": 3, "), 12);  // it was that before the change
  expected.replace(expected.find(".jpeg"), 5, ".png");
  EXPECT_EQ(bytes_of(folder / "images.lst"), expected);
  const std::string samples = bytes_of(folder / "_samples.json");
  EXPECT_NE(samples.find(base64("0image/a.b.jpg")), std::string::npos);
  EXPECT_NE(samples.find("\"id\": 7"), std::string::npos);
}

TEST(ChangedImagesTest, RefuseTwoOfOneName) {
  const ScratchFolder input, output;
  input.put("cat/a.jpg", test::encode_jpeg(test::noise(2, 3)));
  const Dataset folders = read_dataset(input.path(), "Input dataset");
  ImageDirectoryOutput(folders, numbered(folders),
                       take_image_output(output.path() / "out", input.path()))
      .put_in_place();
  EXPECT_TRUE(fs::exists(output.path() / "out/image/0_0.png"));
  Dataset listed = read_dataset(output.path() / "out", "Input dataset");
  listed.samples.push_back({.file_name = "image/0_0.webp", .label = 0, .id = 1, .size = {}});
  const Error error = error_of([&] {
    ImageDirectoryOutput(listed, numbered(listed), OutputFolder(output.path() / "other"));
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
  EXPECT_NE(error.message().find("would both become 'image/0_0.png'"), std::string::npos);
}

TEST_F(WriterTest, WritesListSamplesMetaAndCopies) {
  convert(input_.path(), output_ / "new/folder");
  const fs::path out = output_ / "new/folder";
  EXPECT_EQ(files_in(out), (std::vector<std::string>{"_meta.yaml", "_samples.json", "_schema.json",
                                                     "image/0_0.jpg", "image/0_1.JPG",
                                                     "image/1_2.png", "images.lst"}));
  EXPECT_EQ(bytes_of(out / "images.lst"),
            R"({"image_info": {"file_name": "image/0_0.jpg"}, "category": "cat", "id": 0}
{"image_info": {"file_name": "image/0_1.JPG"}, "category": "cat", "id": 1}
{"image_info": {"file_name": "image/1_2.png"}, "category": "\u00e9l\u00e9phant", "id": 2}
)");
  EXPECT_EQ(bytes_of(out / "_meta.yaml"),
            "type: ImageDirectory\nextension: {}\nimage_list: images.lst\nsamples: _samples.json\n"
            "schema: _schema.json\n");
  EXPECT_EQ(bytes_of(out / "_samples.json"), R"([
  {
    "image": ")" + base64(kPurr) + R"(",
    "id": 0,
    "category": "cat"
  },
  {
    "image": ")" + base64(kToot) + R"(",
    "id": 2,
    "category": "\u00e9l\u00e9phant"
  }
])");
  EXPECT_EQ(bytes_of(out / "image/1_2.png"), kToot);
}

TEST_F(WriterTest, AnImageDirectoryIsCopiedAsItIs) {
  convert(input_.path(), output_ / "first");
  convert(output_ / "first", output_ / "second");
  expect_equal_folders(output_ / "first", output_ / "second");
}

// A link in a stranger's data may lead to anything.
TEST_F(WriterTest, SamplesAreTakenFromImagesAlone) {
  convert(input_.path(), output_ / "given");
  output_.put("secret", "root:$6$secret");
  fs::remove(output_ / "given/_samples.json");
  fs::create_symlink(output_ / "secret", output_ / "given/_samples.json");
  fs::remove(output_ / "given/image/0_0.jpg");
  fs::create_symlink(output_ / "secret", output_ / "given/image/0_0.jpg");
  const std::string samples = read_dataset(output_ / "given", "x").samples_json;
  EXPECT_EQ(samples.find("secret"), std::string::npos) << samples;
  EXPECT_EQ(samples.find(base64("root:$6$secret")), std::string::npos) << samples;
  EXPECT_NE(samples.find(base64(kToot)), std::string::npos) << samples;
}

TEST_F(WriterTest, OnlyImagesAreCopied) {
  output_.put("secret", "root:$6$secret");
  convert(input_.path(), output_ / "listed");
  for (const fs::path& link : {input_ / "cat/c.jpg", output_ / "listed/image/0_1.JPG"}) {
    fs::remove(link);
    fs::create_symlink(output_ / "secret", link);
  }
  for (const fs::path& source : {input_.path(), output_ / "listed"}) {
    const fs::path out = output_ / "out";
    const Dataset set = read_dataset(source, "Input dataset");
    EXPECT_EQ(write_image_directory(set, take_image_output(out, source)).note(),
              source == input_.path()
                  ? "1 file is no image and is not copied: 'cat/c.jpg' (not an image: it is text)"
                  : "1 file is no image and is not copied: 'image/0_1.JPG' (not an image: it is "
                    "text)");
    for (const std::string& file : files_in(out)) {
      EXPECT_EQ(bytes_of(out / file).find("secret"), std::string::npos) << file;
      EXPECT_EQ(bytes_of(out / file).find(base64("root")), std::string::npos) << file;
    }
    EXPECT_EQ(read_dataset(out, "x").samples.size(), source == input_.path() ? 3U : 2U);
  }
  const ScratchFolder texts;
  texts.put("cat/a.jpg", "text");
  const Error error = error_of([&] { convert(texts.path(), output_ / "none"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
  EXPECT_NE(error.message().find("none of its files is an image: 'cat/a.jpg'"), std::string::npos);
}

TEST_F(WriterTest, AKillLeavesTheOldOneOrNoneAndTheNextRunSucceeds) {
  ScratchFolder other;
  for (int i = 0; i < 3; ++i) other.put("dog/" + std::to_string(i) + ".jpg", kUndecodable);
  const fs::path out = output_ / "out";
  convert(input_.path(), output_ / "fresh");
  int num_refused = 0;
  for (int calls = 0;; ++calls) {
    fs::remove_all(out);
    convert(other.path(), out);
    if (!test::is_killed_after(calls, [&] { convert(input_.path(), out); })) break;
    try {
      const Dataset found = read_dataset(out, "x");
      EXPECT_EQ(bytes_of(out / "image/0_0.jpg") == kUndecodable, found.classes.front() == "dog");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset) << error.message();
      ++num_refused;
    }
    convert(input_.path(), out);
    expect_equal_folders(output_ / "fresh", out);
  }
  EXPECT_GT(num_refused, 5);
}

TEST_F(WriterTest, ReplacesAnEarlierImageDirectoryAndItsLeftovers) {
  ScratchFolder other;
  for (int i = 0; i < 5; ++i) other.put("dog/" + std::to_string(i) + ".jpg", kUndecodable);
  convert(other.path(), output_ / "out");
  output_.put("out/image/.kiln-tmp-0_0.jpg-1", "half");
  output_.put("out/.kiln-tmp-_meta.yaml-2", "half");
  fs::remove(output_ / "out/_meta.yaml");  // as a killed run leaves it
  convert(input_.path(), output_ / "out");
  convert(input_.path(), output_ / "fresh");
  expect_equal_folders(output_ / "fresh", output_ / "out");
}

TEST_F(WriterTest, UnlabeledImagesKeepTheirPaths) {
  const ScratchFolder pictures;
  pictures.put("a.jpg", kUndecodable);
  pictures.put("one/two/b.png", kToot);
  convert(pictures.path(), output_ / "out");
  EXPECT_EQ(bytes_of(output_ / "out/images.lst"),
            "{\"image_info\": {\"file_name\": \"image/a.jpg\"}, \"id\": 0}\n"
            "{\"image_info\": {\"file_name\": \"image/one/two/b.png\"}, \"id\": 1}\n");
  EXPECT_FALSE(read_dataset(output_ / "out", "x").labeled());
}

TEST_F(WriterTest, ForeignTargetsAreRefusedAndKept) {
  output_.put("mine/notes.txt", "keep");
  expect_refused(output_ / "mine", "'notes.txt'");
  EXPECT_EQ(bytes_of(output_ / "mine/notes.txt"), "keep");
  convert(input_.path(), output_ / "out");
  output_.put("out/image/extra.jpg", "keep");
  expect_refused(output_ / "out", "'image/extra.jpg'");
  output_.put("file", "keep");
  expect_refused(output_ / "file", "is a file");
}

TEST_F(WriterTest, DotNamesAndLostAndFoundAreIgnored) {
  output_.put(".keep", "x");
  output_.put("lost+found/x", "x");
  convert(input_.path(), output_.path());
  EXPECT_TRUE(fs::exists(output_ / ".keep"));
  EXPECT_TRUE(fs::exists(output_ / "_meta.yaml"));
}

TEST_F(WriterTest, InputAndOutputMustNotOverlap) {
  expect_refused(input_.path(), "it is the input");
  expect_refused(input_ / "cat/out", "inside the other");
  expect_refused(input_.path().parent_path(), "inside the other");
  fs::create_directory_symlink(input_.path(), output_ / "link");
  expect_refused(output_ / "link", "it is the input");
}

TEST(Golden, ClassFoldersBecomeTheDesignersImageDirectory) {
  const char* given = std::getenv("KILN_SHARED");
  const fs::path shared =
      given != nullptr ? fs::path(given) : fs::path(KILN_SOURCE_DIR) / "../shared";
  const fs::path golden = shared / "reference/golden";
  if (!fs::exists(golden / "source")) GTEST_SKIP() << "no golden files";
  const ScratchFolder output;
  convert(golden / "source", output / "out");
  expect_equal_folders(golden / "image_directory", output / "out");
}

}  // namespace
}  // namespace kiln
