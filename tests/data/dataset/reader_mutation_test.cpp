// Damaged lists, schemas, `_meta.yaml` and COCO files are error 18 or are read; they must never
// crash or hang.
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/mutate.h"
#include "data/dataset/dataset.h"
#include "data/dataset/listing.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

constexpr const char* kList =
    R"({"image_info": {"file_name": "a.jpg", "width": 5, "height": 7}, "category": "cat", "id": 0}
{"image_info": {"file_name": "cat/b.jpg"}, "category": "d\u00f6g", "id": 41}
{"image_info": {"file_name": "c.jpg"}, "category": "", "id": 2}
)";

constexpr const char* kCocoJson =
    R"({"images": [{"id": 1, "file_name": "a.jpg", "width": 5, "height": 7},
            {"id": 2, "file_name": "cat/b.jpg"}],
 "annotations": [{"id": 1, "image_id": 1, "category_id": 0},
                 {"id": 2, "image_id": 2, "category_id": 3}],
 "categories": [{"id": 0, "name": "cat"}, {"id": 3, "name": "d\u00f6g"}]})";

template <typename Read>
void expect_no_crash(const std::string& valid, const Read& read) {
  ASSERT_NO_THROW(read(valid));
  const auto refused = test::count_refused<Error>(valid, read);
  EXPECT_GT(refused, test::num_mutations() / 10);
}

const DatasetContext kContext{"folder", "Training dataset"};

TEST(ReaderMutation, ImageLists) {
  const ListSchema schema =
      parse_schema(schema_text({"cat", "d\u00f6g"}), "_schema.json", kContext);
  expect_no_crash(kList, [&](const std::string& bytes) {
    const ListedImages listed = parse_image_list(bytes, "images.lst", schema, kContext);
    for (const Sample& item : listed.samples) {
      ASSERT_EQ(fault_of_relative_path(item.file_name), "");
      ASSERT_LT(item.label, 2);
    }
  });
}

TEST(ReaderMutation, Schemas) {
  expect_no_crash(schema_text({"cat", "d\u00f6g"}),
                  [](const std::string& bytes) { parse_schema(bytes, "_schema.json", kContext); });
}

// Whole folders with one damaged file.
class FolderMutation : public testing::Test {
 protected:
  FolderMutation() {
    for (const char* name : {"a.jpg", "cat/b.jpg", "c.jpg"}) scratch_.put(name);
  }
  void expect_no_crash_of(const std::string& name, const std::string& valid) {
    const auto read = [&](const std::string& bytes) {
      scratch_.put(name, bytes);
      const Dataset set = read_dataset(scratch_.path(), "Training dataset");
      for (const Sample& item : set.samples) {
        ASSERT_LT(item.label, static_cast<int>(set.classes.size()));
      }
    };
    ASSERT_NO_THROW(read(valid));
    const unsigned long rounds = test::num_mutations() / 10 + 1;  // each writes a file
    EXPECT_GT(test::count_refused<Error>(valid, read, rounds), 0U);
  }
  ScratchFolder scratch_;
};

TEST_F(FolderMutation, CocoFiles) {
  expect_no_crash_of("labels.json", kCocoJson);
}

TEST_F(FolderMutation, MetaFiles) {
  scratch_.put("images.lst", kList);
  scratch_.put("_schema.json", schema_text({"cat", "d\u00f6g"}));
  expect_no_crash_of("_meta.yaml", meta_text());
}

}  // namespace
}  // namespace kiln
