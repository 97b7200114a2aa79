#include "model/weights/weight_match.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/weights/network_kernels.h"

namespace kiln {
namespace {

using Names = std::vector<std::string>;
using Rows = std::vector<std::int64_t>;

// The convolutions of a network, without their bytes, which nobody reads here.
WeightSource source_of(std::string_view network) {
  WeightSource source;
  source.where = "w.pth";
  for (const Kernel& kernel : kernels_of(known_network(network)))
    source.state.push_back({kernel.name, DType::kFloat32, kernel.shape, ""});
  return source;
}

std::string fault_of(std::string_view network, const WeightSource& source) {
  try {
    require_weights_of(known_network(network), source);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    return error.message();
  }
  return "no fault";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(NetworkKernels, TellAllNetworksApart) {
  for (const KnownNetwork& network : known_networks()) {
    const WeightSource source = source_of(network.name);
    EXPECT_EQ(fault_of(network.name, source), "no fault");
    EXPECT_EQ(nearest_network(source.state).name, network.name);
    EXPECT_EQ(likeness(source.state, network), 1);
  }
}

TEST(NetworkKernels, AreCountedAsTorchvisionHasThem) {
  EXPECT_EQ(kernels_of(known_network("resnet18")).size(), 20U);
  EXPECT_EQ(kernels_of(known_network("resnet50")).size(), 53U);
  EXPECT_EQ(kernels_of(known_network("densenet121")).size(), 120U);
}

// A network's file may have all that a smaller one needs.
TEST(RequireWeightsOf, OffersTheNetworkThatTheyAreOf) {
  const std::string fault = fault_of("resnet18", source_of("resnet34"));
  EXPECT_TRUE(contains(fault, "The weights in 'w.pth' are not those of resnet18")) << fault;
  EXPECT_TRUE(contains(fault, "They are those of resnet34: use that network")) << fault;
  EXPECT_TRUE(contains(fault_of("densenet121", source_of("densenet169")), "of densenet169"));
}

TEST(RequireWeightsOf, NamesWhatDiffers) {
  WeightSource source = source_of("resnet18");
  source.state[0].shape[1] = 1;
  source.state[1].name = "model.other.weight";
  const std::string fault = fault_of("resnet18", source);
  EXPECT_TRUE(contains(fault, "missing: model.layer1.0.conv1.weight; unexpected: model.other."))
      << fault;
  EXPECT_TRUE(
      contains(fault, "model.conv1.weight has shape [64, 1, 7, 7] instead of [64, 3, 7, 7]"));
  EXPECT_TRUE(contains(fault, "Give weights of resnet18."));
}

TEST(RequireWeightsOf, SaysWhereNothingIsAlike) {
  WeightSource source;
  source.state.push_back({"model.patch_embed.weight", DType::kFloat32, {8, 3, 4, 4}, ""});
  EXPECT_TRUE(contains(fault_of("resnet50", source), "do not match any network that this program"));
  source.state.clear();
  EXPECT_TRUE(contains(fault_of("resnet50", source), "do not match any network that this program"));
}

TEST(MatchClasses, TakesTheWholeLayerForTheSameClasses) {
  const ClassRows match = match_classes({"a", "b"}, {"a", "b"}, 2);
  EXPECT_EQ(match.rows, (Rows{0, 1}));
  EXPECT_TRUE(contains(match.text, "the classes are the same"));
}

TEST(MatchClasses, FindsRowsByName) {
  EXPECT_EQ(match_classes({"b", "a"}, {"a", "b"}, 2).rows, (Rows{1, 0}));
  EXPECT_EQ(match_classes({"c"}, {"a", "b", "c"}, 3).rows, (Rows{2}));
  const ClassRows more = match_classes({"a", "new", "b"}, {"b", "a"}, 2);
  EXPECT_EQ(more.rows, (Rows{1, kFreshRow, 0}));
  EXPECT_TRUE(contains(more.text, "2 of 3 classes; fresh: 'new'")) << more.text;
  const ClassRows none = match_classes({"x", "y"}, {"a", "b"}, 2);
  EXPECT_FALSE(none.any());
  EXPECT_TRUE(contains(none.text, "know none of the classes"));
}

TEST(MatchClasses, GoesByTheirNumberWhereNamesAreNotKnown) {
  EXPECT_EQ(match_classes({"x", "y"}, {}, 2).rows, (Rows{0, 1}));
  const ClassRows other = match_classes({"x", "y", "z"}, {}, 1000);
  EXPECT_FALSE(other.any());
  EXPECT_TRUE(contains(other.text, "the weights have 1000 outputs and the data 3 classes"));
  EXPECT_FALSE(match_classes({"x", "y"}, {"x", "y"}, 1000).any()) << "names of other rows";
}

}  // namespace
}  // namespace kiln
