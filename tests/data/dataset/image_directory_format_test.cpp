// Hostile and broken lists and schemas: each is error 18 naming file and line.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/dataset/listing.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

constexpr const char* kGoodLine =
    R"({"image_info": {"file_name": "a.jpg"}, "category": "cat", "id": 0})";

class ListTest : public testing::Test {
 protected:
  ListTest() {
    scratch_.put("a.jpg");
    scratch_.put("_schema.json", schema_text({"bird", "cat"}));
  }
  Dataset read() { return read_dataset(scratch_.path(), "Training dataset"); }

  void expect_fault(const std::string& place, const std::string& what) {
    const Error error = error_of([&] { read(); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_TRUE(error.message().starts_with("Training dataset '" + scratch_.path().string() +
                                            "': " + place))
        << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    EXPECT_LT(error.message().size(), 3000U);
  }
  void expect_line_fault(const std::string& line, const std::string& what) {
    scratch_.put("images.lst", std::string(kGoodLine) + "\n" + line + "\n");
    expect_fault("images.lst, line 2: ", what);
  }
  void expect_schema_fault(const std::string& schema, const std::string& what) {
    scratch_.put("images.lst", std::string(kGoodLine) + "\n");
    scratch_.put("_schema.json", schema);
    expect_fault("_schema.json", what);
  }

  ScratchFolder scratch_;
};

TEST_F(ListTest, AGoodListIsReadInOrder) {
  scratch_.put("b.jpg");
  scratch_.put("images.lst",
               "{\"image_info\": {\"file_name\": \"a.jpg\", \"width\": 5, \"height\": 7}, "
               "\"category\": \"cat\", \"id\": 40}\r\n\n"
               "{\"image_info\": {\"file_name\": \"./b.jpg\"}, \"category\": \"\"}");
  const Dataset set = read();
  ASSERT_EQ(set.samples.size(), 2U);
  EXPECT_EQ(set.samples[0].label, 1);
  EXPECT_EQ(set.samples[0].id, 40);
  EXPECT_EQ(set.samples[0].size, (ImageSize{.height = 7, .width = 5}));
  EXPECT_EQ(set.samples[1].label, -1);
  EXPECT_EQ(set.samples[1].id, 1);
}

TEST_F(ListTest, PathsThatLeadOutAreRefused) {
  expect_line_fault(R"({"image_info": {"file_name": "../a.jpg"}, "id": 1})", "contains '..'");
  expect_line_fault(R"({"image_info": {"file_name": "x/../../a.jpg"}, "id": 1})", "contains '..'");
  expect_line_fault(R"({"image_info": {"file_name": "/etc/passwd"}, "id": 1})", "is absolute");
  expect_line_fault(R"({"image_info": {"file_name": ""}, "id": 1})", "is empty");
  expect_line_fault(R"({"image_info": {"file_name": "a\u0000.jpg"}, "id": 1})", "zero byte");
  expect_line_fault(R"({"image_info": {"file_name": "_schema.json"}, "id": 1})", "metadata file");
  expect_line_fault(
      R"({"image_info": {"file_name": ")" + std::string(5000, 'x') + R"("}, "id": 1})",
      "longer than 4096");
}

TEST_F(ListTest, WrongTypesAreRefused) {
  expect_line_fault("7", "a number instead of an object");
  expect_line_fault("[]", "a list instead of an object");
  expect_line_fault("{}", "has no \"image_info\"");
  expect_line_fault(R"({"image_info": "a.jpg"})", "a string instead of an object");
  expect_line_fault(R"({"image_info": {}})", "has no \"file_name\"");
  expect_line_fault(R"({"image_info": {"file_name": null}})", "\"file_name\"");
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg", "width": "a", "height": 2}, "id": 1})",
                    "\"width\"");
  expect_line_fault(R"({"image_info": {"file_name": 3}})", "a number instead of a string");
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg"}, "category": 1, "id": 1})",
                    "a number instead of a string");
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg"}, "id": "1"})", "integer");
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg"}, "id": 1.5})",
                    "1.5 instead of an integer");
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg"}, "id": 99999999999999999999})",
                    "integer");
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg", "width": -1, "height": 2}, "id": 1})",
                    "not a valid image size");
}

TEST_F(ListTest, BrokenLinesAreRefused) {
  expect_line_fault(R"({"image_info": {"file_name": "a.jp)", "not valid JSON");
  expect_line_fault(std::string(kGoodLine) + kGoodLine, "not valid JSON");
  expect_line_fault("{\"image_info\": {\"file_name\": \"\xff\xfe.jpg\"}}", "not valid JSON");
  expect_line_fault(R"({"image_info": {"file_name": "\ud800"}})", "not valid JSON");
  expect_line_fault("{\"a\": \"" + std::string(2 << 20, 'x') + "\"}",
                    "more than the limit of 1 MiB");
  expect_line_fault(std::string(100000, '['), "more than 32 levels");
}

TEST_F(ListTest, RepeatedIdsAndUnknownLabelsAreRefused) {
  expect_line_fault(kGoodLine, "the id 0 already appears in line 1");
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg"}, "category": "dog", "id": 1})",
                    "the label 'dog' is not one of the schema's categories");
}

TEST_F(ListTest, AnImageListedTwiceCountsOnce) {
  scratch_.put("b.jpg");
  const std::string again =
                        R"({"image_info": {"file_name": "./a.jpg"}, "category": "cat", "id": 5})",
                    other =
                        R"({"image_info": {"file_name": "b.jpg"}, "category": "bird", "id": 6})";
  scratch_.put("images.lst", std::string(kGoodLine) + "\n" + again + "\n" + other + "\n");
  const Dataset set = read();
  ASSERT_EQ(set.samples.size(), 2U);
  EXPECT_EQ(set.samples[0].id, 0);
  EXPECT_EQ(set.samples[1].id, 6);
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("images.lst: 1 line repeats"), std::string::npos) << set.notes[0];
  const std::string renamed = renamed_list(set, {"x.jpg", "y.jpg"});
  EXPECT_EQ(std::ranges::count(renamed, '\n'), 2);
  EXPECT_NE(renamed.find("y.jpg\"}, \"category\": \"bird\""), std::string::npos) << renamed;
  expect_line_fault(R"({"image_info": {"file_name": "a.jpg"}, "id": 1})", "in line 1");
}

TEST_F(ListTest, AKeyTwiceIsRefused) {
  expect_line_fault(
      R"({"image_info": {"file_name": "b.jpg"}, "category": "cat", "category": "bird", "id": 1})",
      "'category' twice");
  expect_schema_fault(R"({"columnAttributes": [], "columnAttributes": []})",
                      "'columnAttributes' twice");
}

TEST_F(ListTest, MissingFilesAreCountedAndTheFirstTenNamed) {
  std::string list = std::string(kGoodLine) + "\n";
  for (int i = 1; i <= 12; ++i) {
    list += R"({"image_info": {"file_name": "gone_)" + std::to_string(i) + R"(.jpg"}, "id": )" +
            std::to_string(i) + "}\n";
  }
  scratch_.put("images.lst", list);
  expect_fault("images.lst lists 13 images, but 12 of them cannot be used: ",
               "'gone_1.jpg' is missing (line 2), ");
  const std::string message = error_of([&] { read(); }).message();
  EXPECT_NE(message.find("gone_10.jpg"), std::string::npos);
  EXPECT_EQ(message.find("gone_11.jpg"), std::string::npos);
}

TEST_F(ListTest, AListedFolderIsAnError) {
  std::filesystem::create_directory(scratch_ / "b.jpg");
  scratch_.put("images.lst", R"({"image_info": {"file_name": "b.jpg"}, "id": 1})");
  expect_fault("images.lst", "'b.jpg' is not a file (line 1)");
}

TEST_F(ListTest, BrokenSchemasAreRefused) {
  const std::string image = R"({"name": "image", "properties": {"image_ref": "image_info"}})";
  const auto with_label = [&](const std::string& properties) {
    return "{\"columnAttributes\": [" + image +
           ", {\"name\": \"category\", \"properties\": " + properties + "}]}";
  };
  const auto with_categories = [&](const std::string& categories) {
    return with_label(R"({"annotation_type": "COCO_classification", "categories": )" + categories +
                      "}");
  };
  expect_schema_fault("{\n\"columnAttributes\": [\n", ", line 3: is not valid JSON");
  expect_schema_fault("[]", "no list \"columnAttributes\"");
  expect_schema_fault(R"({"columnAttributes": []})", "no column of images");
  expect_schema_fault(with_label(R"({"annotation_type": "COCO_object_detection"})"),
                      "COCO_object_detection");
  expect_schema_fault(with_label(R"({"annotation_type": "COCO_classification"})"),
                      "lists no \"categories\"");
  expect_schema_fault(with_categories("[]"), "not a list of classes");
  expect_schema_fault(with_categories(R"([{"id": "0", "name": "cat"}])"), "integer");
  expect_schema_fault(with_categories(R"([{"id": -1, "name": "cat"}])"), "not between 0 and");
  expect_schema_fault(with_categories(R"([{"id": 4000000000, "name": "cat"}])"),
                      "not between 0 and");
  expect_schema_fault(with_categories(R"([{"id": 0, "name": "a"}, {"id": 0, "name": "b"}])"),
                      "appears twice");
  expect_schema_fault(with_categories(R"([{"id": 0, "name": "a"}, {"id": 1, "name": "a"}])"),
                      "appears twice");
}

TEST_F(ListTest, AMissingSchemaOrListIsAnError) {
  scratch_.put("images.lst", kGoodLine);
  std::filesystem::remove(scratch_ / "_schema.json");
  expect_fault("_schema.json cannot be read", "No such file");
  std::filesystem::remove(scratch_ / "images.lst");
  scratch_.put("_schema.json", schema_text({"cat"}));
  scratch_.put("_meta.yaml", meta_text());
  expect_fault("images.lst cannot be read", "No such file");
}

TEST_F(ListTest, MetaMayBeJsonAndUseOtherNames) {
  scratch_.put("my.lst", std::string(kGoodLine) + "\n");
  scratch_.put("_meta.yaml",
               R"({"type": "ImageDirectory", "extension": {}, "image_list": "my.lst"})");
  EXPECT_EQ(read().samples.size(), 1U);
  EXPECT_EQ(read().list_name, "my.lst");
}

TEST_F(ListTest, BrokenMetaIsRefused) {
  scratch_.put("images.lst", std::string(kGoodLine) + "\n");
  scratch_.put("_meta.yaml", "type: ModelDirectory\n");
  expect_fault("it is of type 'ModelDirectory'", "kiln convert");
  scratch_.put("_meta.yaml", "type: ImageDirectory\nimage_list: [1\n");
  expect_fault("_meta.yaml, line ", "not valid YAML");
  scratch_.put("_meta.yaml", "type: ImageDirectory\nimage_list: ../images.lst\n");
  expect_fault("_meta.yaml: image_list", "contains '..'");
  scratch_.put("_meta.yaml", "{\"type\": 5}");
  expect_fault("_meta.yaml", "\"type\" is a number");
  scratch_.put("_meta.yaml", std::string(60000, '['));
  expect_fault("_meta.yaml", "not valid YAML");
  scratch_.put("_meta.yaml", "");
  expect_fault("_meta.yaml", "is empty");
  scratch_.put("_meta.yaml", std::string(70000, ' '));
  expect_fault("_meta.yaml", "larger than the limit");
}

TEST_F(ListTest, UnusedCategoryIdsAreCalledOthers) {
  scratch_.put(
      "_schema.json",
      R"({"columnAttributes": [{"name": "image", "properties": {"image_ref": "image_info"}},
                  {"name": "kind", "properties": {"annotation_type": "COCO_classification",
                   "categories": [{"id": 3, "name": "cat"}, {"id": 1, "name": "dog"}]}}]})");
  scratch_.put("images.lst", R"({"image_info": {"file_name": "a.jpg"}, "kind": "cat", "id": 1})");
  const Dataset set = read();
  EXPECT_EQ(set.classes, (std::vector<std::string>{"Others", "dog", "Others", "cat"}));
  EXPECT_EQ(set.samples[0].label, 3);
}

}  // namespace
}  // namespace kiln
