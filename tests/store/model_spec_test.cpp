#include "store/model_spec.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "sample_states.h"

namespace kiln {
namespace {

ModelSpec densenet() {
  ModelSpec spec;
  spec.model_name = "densenet121";
  return spec;
}

std::string fault_of(std::string yaml, const std::string& from, const std::string& to) {
  yaml.replace(yaml.find(from), from.size(), to);
  try {
    parse_model_spec(yaml, "folder/model_spec.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    EXPECT_NE(error.message().find("folder/model_spec.yaml"), std::string::npos);
    return error.message();
  }
  return "no fault";
}

TEST(ModelSpec, EqualsTheGoldenFiles) {
  const auto golden = shared_folder() / "reference/golden";
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is not there";
  ModelSpec spec = densenet();
  EXPECT_EQ(format_model_spec(spec, "2026-11-21T11:25:58.667922+0000"),
            read_file(golden / "untrained_densenet121/model_spec.yaml"));
  spec.num_classes = 3;
  spec.normalization = Normalization{};
  EXPECT_EQ(format_model_spec(spec, "2026-11-21T11:29:36.781986+0000"),
            read_file(golden / "trained_densenet121/model_spec.yaml"));
}

TEST(ModelSpec, ReadsWhatItWrites) {
  ModelSpec spec;
  spec.model_name = "wide_resnet50_2";
  spec.pretrained = true;
  spec.zero_init_residual = true;
  spec.num_classes = 7;
  spec.normalization = Normalization{{0.485, 0.456, 0.406}, {0.229, 1, 0.000001}};
  const ModelSpec read =
      parse_model_spec(format_model_spec(spec, "2026-01-02T03:04:05.678901+0000"), "x");
  EXPECT_EQ(read.model_name, spec.model_name);
  EXPECT_TRUE(read.pretrained);
  EXPECT_TRUE(read.zero_init_residual);
  EXPECT_FALSE(read.memory_efficient);
  EXPECT_EQ(read.num_classes, 7);
  EXPECT_EQ(read.normalization, spec.normalization);
  EXPECT_EQ(read.model_file, "model");
  EXPECT_EQ(read.task, TaskKind::kSingleLabel);
  spec.task = TaskKind::kMultiLabel;
  const std::string yaml = format_model_spec(spec, "2026-01-02T03:04:05.678901+0000");
  EXPECT_EQ(parse_model_spec(yaml, "x").task, TaskKind::kMultiLabel);
  EXPECT_EQ(yaml.find("name: pytorch\n"), yaml.npos);  // which other programs take for one label
}

TEST(ModelSpec, FaultsAreNamed) {
  const std::string yaml = format_model_spec(densenet(), "2026-01-02T03:04:05.678901+0000");
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& part) {
    const std::string fault = fault_of(yaml, from, to);
    EXPECT_NE(fault.find(part), std::string::npos) << fault;
  };
  expect("flavor:", "flavour:", "'flavor' is missing");
  expect("model_file: model\n", "", "'model_file' is missing");
  expect("model_file: model\n", "model_file: ../model\n", "is a path");
  expect("class: DenseNet", "class: Unet", "'Unet'");
  expect("densenet121", "densenet122", "'densenet122'");
  expect("densenet121", "resnet18", "'resnet18'");
  expect("pretrained: false", "pretrained: perhaps", "neither true nor false");
  expect("memory_efficient", "growth_rate", "'growth_rate'");
  expect("+0000", "+00:00", "not a string but a time");
  expect("flavor:", "file_name: x\nflavor:", "pickled Python object");
  expect("flavor:", "[", "not valid YAML");
  expect("class: DenseNet", "class: ResNet", "not a known ResNet");
  expect("model_name: densenet121", "model_name: [1]", "model_name");
  expect("name: pytorch", "name: tensorflow", "tensorflow");
  expect("state_dict", "pickle", "serialization_method");
  expect("init_params:", "parameters:", "init_params");
  expect("pretrained: false", "trained: false", "pretrained");
  for (const char* line : {"layers: [2, 2, 2, 2]", "zero_init_residual: true"})
    expect("memory_efficient: false", line, "no parameter");
  expect("memory_efficient: false", "memory_efficient: maybe", "neither true nor false");
  expect("memory_efficient: false", "? [1]\n    : 2", "not a string");
  for (const char* count : {"-1", "0", "many", "1e30", "99999999999999999999", "1000001"})
    expect("memory_efficient: false", "num_classes: " + std::string(count), "'num_classes' is not");
  EXPECT_EQ(fault_of(yaml, "2026-01-02T03:04:05.678901+0000", "'2026-01-02T03:04:05+00:00'"),
            "no fault");
}

TEST(ModelSpec, WhatIsNoMappingIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("[1, 2]"), std::string("a: ["), std::string("\0\xff\xfe", 3),
        std::string(60'000, '['), std::string(70'000, 'a'), std::string("a: &a [*a, *a]")})
    EXPECT_THROW(parse_model_spec(text, "model_spec.yaml"), Error) << text.substr(0, 20);
}

}  // namespace
}  // namespace kiln
