#include "store/state_dict_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/files.h"
#include "sample_states.h"
#include "store/torch_file.h"

namespace kiln {
namespace {

void expect_same_dict(const StateDict& left, const StateDict& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_EQ(left[i].dtype, right[i].dtype);
    EXPECT_EQ(left[i].shape, right[i].shape);
    EXPECT_EQ(left[i].bytes, right[i].bytes) << left[i].name;
  }
}

TEST(StateDictFile, TorchZipKeepsEverything) {
  const std::string bytes = write_torch_zip(sample_state());
  expect_same_dict(read_state_dict(bytes), sample_state());
  EXPECT_EQ(bytes, write_torch_zip(sample_state()));
}

TEST(StateDictFile, SafetensorsKeepsEverything) {
  const std::string bytes = write_safetensors(sample_state());
  expect_same_dict(read_state_dict(bytes), sample_state());
}

TEST(StateDictFile, AnEmptyStateDictIsAFile) {
  EXPECT_TRUE(read_state_dict(write_torch_zip({})).empty());
  EXPECT_TRUE(read_state_dict(write_safetensors({})).empty());
}

TEST(StateDictFile, ZipDataIsAligned) {
  const std::string bytes = write_torch_zip(sample_state());
  const ZipArchive archive(bytes);
  for (const ZipEntry& entry : archive.entries()) {
    EXPECT_EQ((entry.bytes.data() - bytes.data()) % 64, 0) << entry.name;
  }
}

TEST(StateDictFile, LegacyFormatIsRead) {
  const StateDict state = read_state_dict(legacy_sample());
  ASSERT_EQ(state.size(), 1U);
  EXPECT_EQ(state[0].name, "w");
  float values[2];
  std::memcpy(values, state[0].bytes.data(), sizeof values);
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], 2.0F);
}

TEST(StateDictFile, OldDenseNetNamesAreRenamed) {
  StateDict state{{"features.denseblock1.denselayer12.norm.1.running_mean", DType::kUInt8, {}, "x"},
                  {"features.denseblock1.denselayer2.conv.2.weight", DType::kUInt8, {}, "x"},
                  {"features.denselayer2.conv.3.weight", DType::kUInt8, {}, "x"},
                  {"features.transition1.norm.1.weight", DType::kUInt8, {}, "x"},
                  {"classifier.weight", DType::kUInt8, {}, "x"}};
  rename_old_densenet_keys(state);
  EXPECT_EQ(state[0].name, "features.denseblock1.denselayer12.norm1.running_mean");
  EXPECT_EQ(state[1].name, "features.denseblock1.denselayer2.conv2.weight");
  EXPECT_EQ(state[2].name, "features.denselayer2.conv.3.weight");
  EXPECT_EQ(state[3].name, "features.transition1.norm.1.weight");
  EXPECT_EQ(state[4].name, "classifier.weight");
}

TEST(StateDictFile, OldAndNewDenseNetNamesTogetherAreRefused) {
  StateDict state{{"denselayer1.conv.1.weight", DType::kUInt8, {}, "x"},
                  {"denselayer1.conv1.weight", DType::kUInt8, {}, "y"}};
  EXPECT_THROW(rename_old_densenet_keys(state), FormatFault);
}

TEST(StateDictFile, ReadsTheDesignersModel) {
  const auto path = shared_folder() / "reference/golden/untrained_densenet121/model";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const StateDict state = read_state_dict(read_file(path));
  EXPECT_EQ(state.size(), 727U);
  std::int64_t elements = 0;
  for (const StoredTensor& tensor : state) {
    elements += static_cast<std::int64_t>(tensor.bytes.size() / byte_size(tensor.dtype));
  }
  EXPECT_EQ(elements, 8'062'625);
  EXPECT_EQ(state.front().name, "model.features.conv0.weight");
  EXPECT_EQ(state.front().shape, (std::vector<std::int64_t>{64, 3, 7, 7}));
  EXPECT_EQ(state.back().name, "model.classifier.bias");
  expect_same_dict(read_state_dict(write_torch_zip(state)), state);
}

}  // namespace
}  // namespace kiln
