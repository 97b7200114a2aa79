// The catalogue's words about networks against the networks themselves.
#include "model/catalogue.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "model/image_model.h"

namespace kiln {
namespace {

// The first of each family.
std::vector<std::string> first_networks() {
  std::vector<std::string> names;
  for (const NetworkFamily& family : network_families())
    for (const KnownNetwork& network : known_networks())
      if (network.family_name == family.name) {
        names.emplace_back(network.name);
        break;
      }
  return names;
}

class EveryFamily : public testing::TestWithParam<std::string> {
 protected:
  const KnownNetwork& network_ = known_network(GetParam());
  const NetworkFamily& family_ = network_.family();
  std::unique_ptr<ImageModel> model_ =
      make_image_model({.model_name = GetParam(), .num_classes = 3});
};

TEST_P(EveryFamily, HeadIsTheLastLayer) {
  const std::vector<NamedTensor> head = model_->head(), state = model_->state();
  ASSERT_EQ(head.size(), 2U);
  EXPECT_EQ(head[0].name, state[state.size() - 2].name);
  EXPECT_EQ(head[1].name, state.back().name);
  const at::NoGradGuard no_grad;
  const at::Tensor input = model_->pooled_features(at::randn({2, 3, 64, 64}));
  EXPECT_EQ(head[0].tensor.sizes(), (std::vector<std::int64_t>{3, input.size(1)}));
}

TEST_P(EveryFamily, BeginsWithItsFirstLayer) {
  const std::vector<NamedTensor> state = model_->state();
  const auto first =
      std::ranges::find_if(state, [](const auto& item) { return item.tensor.dim() == 4; });
  EXPECT_EQ(first->name, "model." + std::string(family_.first_layer));
}

TEST_P(EveryFamily, TakesImagesOfTheSmallestSideAndNoSmallerOnes) {
  model_->train(false);
  const at::NoGradGuard no_grad;
  const int side = family_.smallest_side();
  const at::Tensor logits = model_->forward(at::randn({1, 3, side, side}));
  EXPECT_TRUE(at::isfinite(logits).all().item<bool>());
  EXPECT_EQ(family_.final_map_side(side), 1);
  EXPECT_EQ(family_.final_map_side(side - 1), 0);
  EXPECT_ANY_THROW(model_->forward(at::randn({1, 3, side - 1, side - 1})));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryFamily, testing::ValuesIn(first_networks()),
                         [](const auto& family) { return family.param; });

TEST(Catalogue, TimmsFilesAreOfOneRevisionAndHashIfTheyAreKnown) {
  std::size_t found = 0;
  for (const KnownNetwork& network : known_networks()) {
    const PublishedWeights* timms = find_published(network, "timm");
    if (timms == nullptr) continue;
    ++found;
    const std::string file(timms->file);
    EXPECT_EQ(find_network(file.substr(0, file.find('.'))), &network) << file;
    EXPECT_TRUE(timms->revision.empty() || timms->revision.size() == 40) << file;
    EXPECT_TRUE(timms->sha256.empty() || timms->sha256.size() == 64) << file;
    for (const std::string_view digits : {timms->revision, timms->sha256})
      EXPECT_EQ(digits.find_first_not_of("0123456789abcdef"), digits.npos) << file;
    EXPECT_EQ(timms->url(), "https://huggingface.co/timm/" + file + "/resolve/" +
                                (timms->revision.empty() ? "main" : std::string(timms->revision)) +
                                "/model.safetensors");
  }
  EXPECT_EQ(found, 21U);
  EXPECT_TRUE(find_published(known_network("vit_s_16"), "timm")->is_half);
}

TEST(Catalogue, FamiliesDifferInOptionsAndRounding) {
  const NetworkFamily& resnet = *find_row(network_families(), "ResNet");
  const NetworkFamily& densenet = *find_row(network_families(), "DenseNet");
  EXPECT_TRUE(resnet.allows(kZeroInitResidual));
  EXPECT_FALSE(resnet.allows(kMemoryEfficient));
  EXPECT_TRUE(densenet.allows(kMemoryEfficient));
  EXPECT_FALSE(densenet.allows(kZeroInitResidual));
  EXPECT_EQ(resnet.smallest_side(), 1);
  EXPECT_EQ(densenet.smallest_side(), 29);
  for (const NetworkFamily* family : {&resnet, &densenet}) {
    EXPECT_EQ(family->stride(), 32);
    EXPECT_EQ(family->final_map_side(224), 7);
  }
  EXPECT_EQ(resnet.final_map_side(33), 2);
  EXPECT_EQ(densenet.final_map_side(33), 1);
  EXPECT_EQ(densenet.final_map_side(61), 2);
}

TEST(Catalogue, NetworksHaveTheSizeThatTheyWereMadeFor) {
  for (const auto& [name, side] :
       {std::pair{"efficientnet_b0", 224}, std::pair{"efficientnet_b1", 240},
        std::pair{"efficientnet_b2", 288}, std::pair{"efficientnet_b3", 300},
        std::pair{"vit_s_14", 224}})
    EXPECT_EQ(known_network(name).side(), side) << name;
  for (const KnownNetwork& network : known_networks())
    EXPECT_EQ(network.size_fault(network.side(), network.side()), "") << network.name;
}

TEST(Catalogue, FindsEveryNetworkByItsName) {
  const std::vector<std::string> names = network_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) EXPECT_EQ(known_network(name).name, name);
  EXPECT_EQ(&known_network("wide_resnet50_2").family(), find_row(network_families(), "ResNet"));
  EXPECT_EQ(find_network("vgg16"), nullptr);
  EXPECT_EQ(find_network(""), nullptr);
  EXPECT_EQ(find_row(network_families(), "Unet"), nullptr);
  try {
    known_network("vgg16");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    for (const std::string& name : names)
      EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace kiln
