#include "store/transformation_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "sample_states.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMeta = "type: TransformationDirectory\ntransform_type: Image\n";

class TransformationDirectory : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / ("kiln-" + std::to_string(::getpid()) + test->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  void expect_refused(const fs::path& folder, const std::string& part) const {
    try {
      read_transformation_directory(folder);
      ADD_FAILURE() << "no fault; expected: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidTransformationDirectory);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(folder.string()), std::string::npos) << error.message();
    }
  }

  fs::path folder_;
};

TEST_F(TransformationDirectory, ReadsWhatItWrites) {
  const fs::path folder = folder_ / "new/one";
  for (const std::string text : {"[\n  [\n    \"Resize\",\n    40\n  ]\n]", "[]"}) {
    write_transformation_directory(prepare_transformation_output(folder), text);
    EXPECT_EQ(read_transformation_directory(folder), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
}

TEST_F(TransformationDirectory, IsTheDesignersToTheByte) {
  const fs::path golden = shared_folder() / "reference/golden/transform_directory";
  if (!fs::exists(golden)) GTEST_SKIP() << golden << " is not there";
  write_transformation_directory(prepare_transformation_output(folder_),
                                 read_transformation_directory(golden));
  for (const char* name : {"_meta.yaml", "_transforms.json"})
    EXPECT_EQ(read_file(folder_ / name), read_file(golden / name)) << name;
}

TEST_F(TransformationDirectory, RefusesWhatIsNone) {
  expect_refused(folder_ / "absent", "does not exist");
  put("file", "");
  expect_refused(folder_ / "file", "is a file");
  expect_refused(folder_, "has no _meta.yaml");
  put("_meta.yaml", kMeta);
  expect_refused(folder_, "_transforms.json' cannot be read");
  put("_transforms.json", "[]");
  EXPECT_EQ(read_transformation_directory(folder_), "[]");
  put("_transforms.json", std::string((1 << 13) + 1, ' '));
  expect_refused(folder_, "is larger than 8 KiB");
  for (const auto& [meta, part] : std::vector<std::pair<std::string, std::string>>{
           {"type: ModelDirectory\n", "is of type 'ModelDirectory'"},
           {"type: TransformationDirectory\n", "does not specify that it transforms images"},
           {"type: TransformationDirectory\ntransform_type: Data\n", "transforms 'Data'"},
           {"transform_type: Image\n", "has no key 'type'"},
           {"- a\n", "is not a mapping"},
           {"a: [\n", "is not valid YAML"},
           {std::string((1 << 16) + 1, '#'), "is larger than 64 KiB"}}) {
    put("_meta.yaml", meta);
    expect_refused(folder_, part);
  }
}

TEST_F(TransformationDirectory, WritesOverNothingElse) {
  const auto prepare = [&] { prepare_transformation_output(folder_); };
  put("photo.jpg", "x");
  EXPECT_THROW(prepare(), Error);
  fs::remove(folder_ / "photo.jpg");
  put("_meta.yaml", "type: ModelDirectory\n");
  EXPECT_THROW(prepare(), Error);
  put("_meta.yaml", kMeta);
  put(".hidden", "x");
  EXPECT_NO_THROW(prepare());
}

}  // namespace
}  // namespace kiln
