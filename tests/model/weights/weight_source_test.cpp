#include "model/weights/weight_source.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/system_calls.h"
#include "data/archive/archive.h"
#include "data/scratch_folder.h"
#include "model/weights/timm_names.h"
#include "store/checkpoint.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

StoredTensor tensor(const std::string& name, float value = 1) {
  return {
      name, DType::kFloat32, {1}, std::string(reinterpret_cast<const char*>(&value), sizeof value)};
}

Names names_in(const StateDict& state) {
  Names names;
  for (const StoredTensor& item : state) names.push_back(item.name);
  return names;
}

// A first layer has the shape of one, so that it tells where a network is.
StateDict state_of(const Names& names) {
  StateDict state;
  for (const std::string& name : names) {
    state.push_back(tensor(name));
    if (name.ends_with("conv1.weight")) state.back().shape = {1, 3, 1, 1};
  }
  return state;
}

Names own_names(const Names& names, const std::string& wanted = "", std::string* taken = nullptr) {
  StateDict state = state_of(names);
  StateDictParts parts;
  parts.wanted = wanted;
  to_own_names(state, parts);
  if (taken != nullptr) *taken = parts.taken;
  return names_in(state);
}

std::string fault_of_names(const Names& names, const std::string& wanted = "") {
  try {
    own_names(names, wanted);
  } catch (const FormatFault& fault) {
    return fault.what();
  }
  return "no fault";
}

TEST(ToOwnNames, TakesOffWhatWrapsANetwork) {
  const Names own = {"model.conv1.weight", "model.fc.bias"};
  EXPECT_EQ(own_names({"conv1.weight", "fc.bias"}), own);
  EXPECT_EQ(own_names(own), own);
  EXPECT_EQ(own_names({"module.conv1.weight", "module.fc.bias"}), own);
  EXPECT_EQ(own_names({"_orig_mod.module.conv1.weight", "_orig_mod.module.fc.bias"}), own);
  EXPECT_EQ(own_names({"module.model.conv1.weight", "module.model.fc.bias"}), own);
  EXPECT_EQ(own_names({"model.module._orig_mod.conv1.weight", "fc.bias"}), own);
  EXPECT_EQ(own_names({"n_averaged", "module.n_averaged", "conv1.weight", "module.fc.bias"}), own);
  EXPECT_EQ(own_names({"layer1._fsdp_wrapped_module.0._checkpoint_wrapped_module.conv1.bias"}),
            (Names{"model.layer1.0.conv1.bias"}));
  EXPECT_EQ(own_names({"model.fc.bias", "out_linear_model.bias"}),
            (Names{"model.fc.bias", "out_linear_model.bias"}));
  EXPECT_EQ(own_names({"features.denseblock1.denselayer2.norm.1.weight"}),
            (Names{"model.features.denseblock1.denselayer2.norm1.weight"}));
}

// tests/parity/model_parity.py loads timm's own files.
TEST(ToOwnNames, TakesThoseOfTimm) {
  StateDict state =
      state_of({"conv_stem.weight", "bn1.bias", "blocks.0.0.conv_dw.weight", "blocks.0.0.bn1.bias",
                "blocks.0.0.conv_pw.weight", "blocks.0.0.bn2.bias", "blocks.1.0.conv_pw.weight",
                "blocks.1.0.bn3.running_var", "blocks.1.0.conv_dw.weight",
                "blocks.1.0.se.conv_reduce.bias", "blocks.1.0.conv_pwl.weight",
                "blocks.2.0.conv.weight", "conv_head.weight", "classifier.bias"});
  state.front().shape = {1, 3, 1, 1};
  state[12].shape = {1, 1, 1, 1};
  StateDictParts parts;
  to_own_names(state, parts);
  EXPECT_EQ(names_in(state),
            (Names{"model.features.0.0.weight", "model.features.0.1.bias",
                   "model.features.1.block.0.0.weight", "model.features.1.block.0.1.bias",
                   "model.features.1.block.1.0.weight", "model.features.1.block.1.1.bias",
                   "model.features.2.block.0.0.weight", "model.features.2.block.3.1.running_var",
                   "model.features.2.block.1.0.weight", "model.features.2.block.2.fc1.bias",
                   "model.features.2.block.3.0.weight", "model.features.3.0.weight",
                   "model.classifier.0.weight", "model.classifier.3.bias"}));
  EXPECT_EQ(state[12].shape, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(state[7].bytes, tensor("", 1 + 1e-5F - 1e-3F).bytes);
  StateDict next = state_of({"stem.0.weight", "stages.1.blocks.2.gamma", "head.norm.bias"});
  next.front().shape = {1, 3, 1, 1};
  to_own_names(next, parts);
  EXPECT_EQ(names_in(next), (Names{"model.features.0.0.weight", "model.features.3.2.layer_scale",
                                   "model.classifier.0.bias"}));
  EXPECT_EQ(next[1].shape, (std::vector<std::int64_t>{1, 1, 1}));
}

TEST(TimmNames, GoBackAndForth) {
  using Tensors = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;
  const auto expect_same = [](const std::string& family, const Tensors& tensors) {
    StateDict state;
    for (const auto& [name, shape] : tensors) {
      state.push_back(tensor("model." + name, 1));
      state.back().shape = shape;
    }
    const StateDict before = state;
    rename_to_torchvision(state, /*is_tensorflows=*/false);
    const Names ours = names_in(state);
    rename_to_timm(state, family);
    EXPECT_EQ(names_in(state), names_in(before));
    for (std::size_t i = 0; i < state.size(); ++i) {
      EXPECT_NE(ours[i], state[i].name);
      EXPECT_EQ(state[i].shape, before[i].shape) << state[i].name;
      float value = 0;
      std::memcpy(&value, state[i].bytes.data(), sizeof value);
      EXPECT_NEAR(value, 1, 1e-6) << state[i].name;
    }
  };
  expect_same("MobileNetV3", {{"conv_stem.weight", {16, 3, 3, 3}},
                              {"bn1.running_var", {16}},
                              {"blocks.0.0.conv_dw.weight", {16, 1, 3, 3}},
                              {"blocks.0.0.bn1.bias", {16}},
                              {"blocks.0.0.se.conv_reduce.weight", {8, 16, 1, 1}},
                              {"blocks.0.0.conv_pw.weight", {16, 16, 1, 1}},
                              {"blocks.0.0.bn2.bias", {16}},
                              {"blocks.1.1.conv_pwl.weight", {24, 88, 1, 1}},  // in any order
                              {"blocks.1.1.conv_dw.weight", {88, 1, 3, 3}},
                              {"blocks.1.1.conv_pw.weight", {88, 24, 1, 1}},
                              {"blocks.1.0.conv_pw.weight", {72, 16, 1, 1}},
                              {"blocks.1.0.bn1.running_var", {72}},
                              {"blocks.1.0.conv_dw.weight", {72, 1, 3, 3}},
                              {"blocks.1.0.bn2.running_var", {72}},
                              {"blocks.1.0.conv_pwl.weight", {24, 72, 1, 1}},
                              {"blocks.1.0.bn3.running_var", {24}},
                              {"blocks.2.0.conv.weight", {96, 24, 1, 1}},
                              {"blocks.2.0.bn1.weight", {96}},
                              {"conv_head.weight", {8, 96, 1, 1}},
                              {"classifier.bias", {5}}});
  expect_same("EfficientNet", {{"conv_stem.weight", {24, 3, 3, 3}},
                               {"blocks.0.0.conv.weight", {24, 24, 3, 3}},
                               {"blocks.1.0.conv_exp.weight", {96, 24, 3, 3}},
                               {"blocks.1.0.bn1.running_var", {96}},
                               {"blocks.1.0.conv_pwl.weight", {48, 96, 1, 1}},
                               {"blocks.1.0.bn2.running_var", {48}},
                               {"bn2.weight", {8}},
                               {"conv_head.weight", {8, 48, 1, 1}},
                               {"classifier.bias", {5}}});
  expect_same("ConvNeXt", {{"stem.0.weight", {96, 3, 4, 4}},
                           {"stages.1.downsample.1.weight", {192, 96, 2, 2}},
                           {"stages.1.blocks.2.gamma", {192}},
                           {"stages.1.blocks.2.norm.bias", {192}},
                           {"head.norm.bias", {768}},
                           {"head.fc.bias", {5}}});
  expect_same("ViT", {{"patch_embed.proj.weight", {768, 3, 16, 16}},
                      {"cls_token", {1, 1, 768}},
                      {"pos_embed", {1, 197, 768}},
                      {"blocks.11.attn.qkv.weight", {2304, 768}},
                      {"blocks.11.mlp.fc2.bias", {768}},
                      {"norm.bias", {768}},
                      {"head.bias", {5}}});
}

// The first variance of a network of timm's, of which `name` is what its file is called.
double variance_of(const std::string& layer, StoredTensor variance, const std::string& name) {
  StateDict state = state_of({"conv_stem.weight", layer});
  state.front().shape = {1, 3, 1, 1};
  variance.name = "bn1.running_var";
  state.push_back(std::move(variance));
  StateDictParts parts;
  const std::string assumed = to_own_names(state, parts, name);
  EXPECT_NE(assumed.find(name.empty() ? "1e-05" : "0.001"), std::string::npos) << assumed;
  float value = 0;
  EXPECT_EQ(state.back().dtype, DType::kFloat32);
  std::memcpy(&value, state.back().bytes.data(), sizeof value);
  return value;
}

TEST(ToOwnNames, VariancesMakeUpForEpsilon) {
  const StoredTensor one = tensor("", 1), half{"", DType::kFloat16, {1}, std::string("\0\x3c", 2)},
                     brain{"", DType::kBFloat16, {1}, std::string("\x80\x3f", 2)},
                     least{"", DType::kFloat16, {1}, std::string("\1\0", 2)};
  const char* v1 = "bn2.weight";
  const char* mobilenet = "blocks.0.0.conv_dw.weight";
  const char* tf = "hub/TF_mobilenetv3_large_100-427764d5.pth";
  for (const StoredTensor& stored : {one, half, brain})
    EXPECT_NEAR(variance_of(mobilenet, stored, ""), 1 - 0.00099, 1e-7);
  EXPECT_NEAR(variance_of(mobilenet, least, ""), std::ldexp(1., -24) - 0.00099, 1e-9);
  EXPECT_EQ(variance_of(mobilenet, one, tf), 1);
  EXPECT_EQ(variance_of(v1, one, ""), 1);
  EXPECT_NEAR(variance_of(v1, half, "tf_efficientnet_b0.ns_jft_in1k/model.safetensors"), 1.00099,
              1e-7);
}

TEST(ToOwnNames, TakesOneNetwork) {
  const Names own = {"model.conv1.weight", "model.fc.bias"};
  std::string taken;
  EXPECT_EQ(own_names({"module.net.conv1.weight", "net.fc.bias"}, "", &taken), own);
  EXPECT_EQ(taken, "net");
  EXPECT_EQ(own_names({"backbone.conv1.weight", "fc.bias"}), own);
  const Names two = {"model.conv1.weight", "model.fc.bias", "ema.conv1.weight", "ema.fc.bias"};
  EXPECT_EQ(own_names(two), own);
  for (const char* part : {"model", "ema"}) EXPECT_EQ(own_names(two, part), own);
  EXPECT_EQ(own_names({"module.teacher.model.body.conv1.weight",
                       "module.teacher.model.body.fc.bias", "student.conv1.weight"},
                      "teacher", &taken),
            own);
  EXPECT_EQ(taken, "teacher.body");
}

TEST(ToOwnNames, GuessesNothing) {
  EXPECT_EQ(fault_of_names({"teacher.conv1.weight", "module.student.conv1.weight"}),
            "it holds several networks; add #teacher or #student");
  EXPECT_EQ(fault_of_names({"teacher.conv1.weight"}, "student"),
            "it has no part 'student'; add #teacher");
  EXPECT_EQ(fault_of_names({"conv1.weight"}, "ema"), "it has no part 'ema'; it is one state dict");
  const std::string fault = fault_of_names({"model.fc.bias", "module.fc.bias"});
  for (const char* name : {"'model.fc.bias'", "'module.fc.bias'"})
    EXPECT_NE(fault.find(name), std::string::npos) << fault;
  EXPECT_EQ(own_names({"model.fc.bias", "module.fc.bias"}, "module"), (Names{"model.fc.bias"}));
}

class Sources : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  static TrainedModel model() {
    TrainedModel model{.spec = {.model_name = "resnet18", .num_classes = 2, .normalization = {}},
                       .state = {tensor("model.fc.bias", 3)},
                       .labels = {"cat", "dog"},
                       .preprocessing = {.height = 8, .width = 8, .normalization = {}},
                       .calibration = {},
                       .schema_json = "{}",
                       .samples_json = "{}",
                       .training_json = "{}"};
    model.preprocessing.normalization.mean = {0.1, 0.2, 0.3};
    return model;
  }

  // As SageMaker packs /opt/ml/model.
  static std::string tar_of_model(const std::string& prefix) {
    std::string tar;
    for (const OutputFile& file : trained_model_files(model()))
      tar += tar_member(prefix + file.name, file.bytes);
    return tar + tar_end();
  }

  std::string write_gzip(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder_ / name).string();
    archive* writer = archive_write_new();
    archive_write_add_filter(writer, ARCHIVE_FILTER_GZIP);
    archive_write_set_format_raw(writer);
    archive_write_open_filename(writer, path.c_str());
    archive_entry* entry = archive_entry_new();
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_write_header(writer, entry);
    archive_write_data(writer, bytes.data(), bytes.size());
    archive_write_close(writer);
    archive_entry_free(entry);
    archive_write_free(writer);
    return path;
  }

  static std::string fault_of(const fs::path& path) {
    try {
      read_weight_source(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
      return error.message();
    }
    return "no fault";
  }

  static void expect_the_model(const WeightSource& source) {
    EXPECT_TRUE(source.trained);
    EXPECT_EQ(names_in(source.state), (Names{"model.fc.bias"}));
    EXPECT_EQ(source.classes, (Names{"cat", "dog"}));
    ASSERT_TRUE(source.normalization);
    EXPECT_EQ(source.normalization->mean[2], 0.3);
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(Sources, AStateDictSaysNothingOfClasses) {
  for (const std::string& bytes :
       {write_torch_zip({tensor("fc.bias")}), write_safetensors({tensor("fc.bias")})}) {
    const WeightSource source = read_weight_source(write("w.pth", bytes));
    EXPECT_EQ(names_in(source.state), (Names{"model.fc.bias"}));
    EXPECT_TRUE(source.classes.empty());
    EXPECT_FALSE(source.normalization);
    EXPECT_FALSE(source.trained);
  }
}

TEST_F(Sources, AModelDirectoryKnowsItsClasses) {
  write_directory(OutputFolder(folder_ / "m"), trained_model_files(model()));
  expect_the_model(read_weight_source(folder_ / "m"));
  ModelDirectory untrained;
  untrained.state = {tensor("model.fc.bias")};
  EXPECT_FALSE(weights_of(untrained, "u").trained);
}

TEST_F(Sources, AModelsWeightsFileKnowsWhatIsBesideIt) {
  write_directory(OutputFolder(folder_ / "m"), trained_model_files(model()));
  for (const char* name : {"model", "model.safetensors"})
    expect_the_model(read_weight_source(folder_ / "m" / name));
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "m");
  EXPECT_NO_THROW(expect_the_model(read_weight_source("model.safetensors")));
  fs::current_path(before);
  fs::remove(folder_ / "m" / kMetaFile);
  const WeightSource source = read_weight_source(folder_ / "m/model.safetensors");
  EXPECT_EQ(source.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(source.normalization->mean[2], 0.3);
}

TEST_F(Sources, AModelThatIsReplacedMeanwhileIsReadAgainWithWhatIsBesideIt) {
  write_directory(OutputFolder(folder_ / "m"), trained_model_files(model()));
  TrainedModel other = model();
  other.state = {tensor("model.fc.bias", 4)};
  other.labels = {"fir", "oak"};
  bool is_replaced = false;
  const std::function<void(const fs::path&)> replace = [&](const fs::path& path) {
    if (path.filename() != kLabelMapFile || std::exchange(is_replaced, true)) return;
    write_directory(OutputFolder(folder_ / "m"), trained_model_files(other));
  };
  test::before_open = &replace;
  const WeightSource source = read_weight_source(folder_ / "m/model.safetensors");
  test::before_open = nullptr;
  EXPECT_EQ(source.classes, other.labels);
  EXPECT_EQ(source.state[0].bytes, other.state[0].bytes);
}

TEST_F(Sources, PublishedWeightsHaveAWord) {
  const auto told = [](const std::string& network) {
    try {
      read_weight_source("imagenet", network);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("read");
  };
  EXPECT_NE(told("resnet50").find("--weights torchvision."), std::string::npos);
  for (const char* other : {"vit_s_14", "vit_s_16", ""})
    EXPECT_EQ(told(other).find("torchvision"), std::string::npos) << other;
}

TEST_F(Sources, TimmsFileInTheCacheSaysHowItsImagesWereNormalized) {
  const std::string bytes = write_safetensors({tensor("fc.bias")});
  const std::string half = "1a2b3c4d-vit_small_patch16_224.augreg_in21k_ft_in1k-model.safetensors";
  EXPECT_EQ(read_weight_source(write(half, bytes)).normalization->std[1], 0.5);
  const std::string other = "1a2b3c4d-resnet18.a1_in1k-model.safetensors";
  EXPECT_FALSE(read_weight_source(write(other, bytes)).normalization);
}

std::string safetensors_with(const std::string& metadata) {
  std::string bytes = write_safetensors({tensor("fc.bias")});
  const std::string old = R"({"format":"pt"})";
  const std::size_t at = bytes.find(old);
  bytes.replace(at, old.size(), metadata);
  bytes[0] = static_cast<char>(bytes[0] + static_cast<int>(metadata.size() - old.size()));
  return bytes;
}

TEST_F(Sources, AFileMayNameItsClasses) {
  const Names both = {"cat", "dog"};
  const auto classes = [&](const std::string& metadata) {
    return read_weight_source(write("w.safetensors", safetensors_with(metadata))).classes;
  };
  EXPECT_EQ(classes(R"({"classes":"[\"cat\",\"dog\"]"})"), both);
  EXPECT_EQ(classes(R"({"id2label":"{\"1\":\"dog\",\"0\":\"cat\"}"})"), both);
  for (const char* other :
       {R"({"classes":"cat, dog"})", R"({"classes":"[1,0]"})", R"({"classes":"3"})",
        R"({"id2label":"{\"1\":\"dog\",\"2\":\"cat\"}"})", R"({"names":"[\"a\"]"})"})
    EXPECT_EQ(classes(other), Names()) << other;
  write("w.classes.txt",
        "\xef\xbb\xbf"
        "dog\r\ncat\n\n");
  EXPECT_EQ(classes(R"({"classes":"[\"cat\",\"dog\"]"})"), (Names{"dog", "cat"}));
  write("w.classes.txt", "dog\ndog\n");
  EXPECT_NE(fault_of(folder_ / "w.safetensors").find("twice"), std::string::npos);
}

TEST_F(Sources, AConfigBesideItIsReadOrPassedOver) {
  const std::string file = write("hub/model.safetensors", write_safetensors({tensor("fc.bias")}));
  write("hub/config.json",
        R"({"id2label":{"0":"cat","1":"dog"},"pretrained_cfg":{"mean":[0,0,0.5],)"
        R"("std":[1,1,1]}})" +
            std::string(1 << 17, ' '));
  EXPECT_EQ(read_weight_source(file).classes, (Names{"cat", "dog"}));
  EXPECT_EQ(read_weight_source(file).normalization->mean[2], 0.5);
  for (const std::string& other : {std::string("{"), std::string(17 << 20, ' ')}) {
    write("hub/config.json", other);
    EXPECT_NE(read_weight_source(file).kind.find("config.json is passed over"), std::string::npos);
  }
}

TEST_F(Sources, ShardsAreNamed) {
  const std::string bytes = write_safetensors({tensor("fc.bias")});
  EXPECT_NE(fault_of(write("s/model-00002-of-00003.safetensors", bytes)).find("one of 3 shards"),
            std::string::npos);
  EXPECT_NE(fault_of(folder_ / "s").find("one of 3 shards"), std::string::npos);
  EXPECT_NE(fault_of(write("i/pytorch_model.bin.index.json", "{}")).find("the index of shards"),
            std::string::npos);
  EXPECT_NE(fault_of(folder_ / "i").find("the index of shards"), std::string::npos);
  EXPECT_EQ(fault_of(write("one/model-00001-of-00001.safetensors", bytes)), "no fault");
}

TEST_F(Sources, AModelMayBePacked) {
  fs::create_directories(folder_ / "channel");
  expect_the_model(read_weight_source(write_gzip("channel/model.tar.gz", tar_of_model(""))));
  expect_the_model(read_weight_source(folder_ / "channel"));
  EXPECT_EQ(read_model(folder_ / "channel").spec.model_name, "resnet18");
  expect_the_model(read_weight_source(write_gzip("inside.tgz", tar_of_model("out/model/"))));
  expect_the_model(read_weight_source(write("plain.tar", tar_of_model(""))));
  const std::string deep = tar_member("a/b/_meta.yaml", "") + tar_member("model/_meta.yaml", "");
  expect_the_model(read_weight_source(write("deep.tar", deep + tar_of_model("model/"))));
}

TEST_F(Sources, ATarWithoutAModelIsRefused) {
  EXPECT_NE(fault_of(write("no.tar", tar_member("a.txt", "a") + tar_end())).find("_meta.yaml"),
            std::string::npos);
  EXPECT_NE(fault_of(write("two.tar", tar_member("b/_meta.yaml", "") + tar_of_model("a/")))
                .find("several"),
            std::string::npos);
  const std::string whole = read_file(write_gzip("whole.tar.gz", tar_of_model("")));
  EXPECT_NE(fault_of(write("cut.tar.gz", whole.substr(0, whole.size() / 2))).find("truncated"),
            std::string::npos);
  EXPECT_NE(
      fault_of(write("evil.tar", tar_member("../_meta.yaml", "a") + tar_end())).find("bad name"),
      std::string::npos);
  EXPECT_NE(fault_of(write_gzip("text.gz", "text")).find("not a tar"), std::string::npos);
}

TEST_F(Sources, ACheckpointSaysWhatItsRecordSays) {
  const StateDict state = {tensor("model.fc.bias")};
  const TensorView weight{"model.model.fc.bias", DType::kFloat32, {1}, state[0].bytes};
  const TensorView momentum{"optimizer.momentum", DType::kFloat32, {1}, state[0].bytes};
  {
    CheckpointFolder checkpoints(folder_ / "c", 1);
    checkpoints.write({.state_json = "{}",
                       .record = R"({"event":"start","data":{"classes":["x","y"],)"
                                 R"("mean":[0.5,0.5,0.25],"std":[1,1,1]}})"
                                 "\n{}\n",
                       .tensors = {weight, momentum},
                       .best = {}});
  }
  const WeightSource source = read_weight_source(folder_ / "c");
  EXPECT_EQ(names_in(source.state), (Names{"model.fc.bias"}));
  EXPECT_EQ(source.classes, (Names{"x", "y"}));
  ASSERT_TRUE(source.normalization);
  EXPECT_EQ(source.normalization->mean[2], 0.25);
  EXPECT_TRUE(source.trained);
  EXPECT_EQ(source.kind, "checkpoint-000001");
}

TEST_F(Sources, OtherThingsAreRefused) {
  EXPECT_NE(fault_of(folder_ / "nowhere.pth").find("cannot be read"), std::string::npos);
  EXPECT_NE(fault_of(folder_).find("it has no _meta.yaml"), std::string::npos);
  EXPECT_NE(fault_of(write("photo.jpg", "\xff\xd8\xff\xe0 JFIF")).find("begins neither"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
