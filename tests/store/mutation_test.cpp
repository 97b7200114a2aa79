// Damaged files may be refused or, if only weights are damaged, read; they must never crash or
// hang.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/mutate.h"
#include "sample_states.h"
#include "store/model_directory.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

template <typename Read>
void expect_no_crash(const std::string& valid, const Read& read) {
  const auto refused = test::count_refused<FormatFault, Error>(valid, read);
  EXPECT_GT(refused, test::num_mutations() / 10);
}

TEST(Mutation, StateDictFiles) {
  for (const std::string& valid :
       {write_torch_zip(sample_state()), write_safetensors(sample_state()), legacy_sample()}) {
    expect_no_crash(valid, [](const std::string& bytes) { read_state_dict(bytes); });
  }
}

// Damage with corrected checksums, so that it reaches the pickle reader.
TEST(Mutation, PicklesBehindRightChecksums) {
  const std::string checkpoint = read_file(
      std::string(KILN_SOURCE_DIR) + "/tests/fuzz/seeds/state_dict_legacy/training_checkpoint.pt");
  for (const std::string& valid : {legacy_sample(), checkpoint})
    expect_no_crash(valid, [](const std::string& bytes) { read_state_dict(bytes); });
}

TEST(Mutation, ModelSpecs) {
  ModelSpec spec;
  spec.model_name = "resnet18";
  spec.num_classes = 3;
  spec.normalization = Normalization{};
  expect_no_crash(format_model_spec(spec, time_stamp(std::chrono::system_clock::now())),
                  [](const std::string& yaml) { parse_model_spec(yaml, "spec"); });
}

TEST(Mutation, Preprocessing) {
  expect_no_crash(format_preprocessing({Exif::kApply, 224, 224, 256, true, {}}),
                  [](const std::string& json) { parse_preprocessing(json, "preprocessing"); });
}

TEST(Mutation, Calibrations) {
  expect_no_crash(format_calibration({1.5, {{0.25, 3, 2}, {0.5, 4, 4}}}),
                  [](const std::string& json) { parse_calibration(json, "calibration"); });
}

TEST(Mutation, SeenImages) {
  expect_no_crash(pack_seen_images({{1, 2, 3}, {4}}),
                  [](const std::string& bytes) { parse_seen_images(bytes, "seen images"); });
}

TEST(Mutation, LabelMaps) {
  expect_no_crash(format_label_map({"a", "b,c", "d\"e"}),
                  [](const std::string& csv) { parse_label_map(csv); });
}

}  // namespace
}  // namespace kiln
