#include "model/step_memory.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

// What training takes for each pixel of an image, measured as the growth of the peak memory from
// batches of 8 to 32 (224 pixels: 4 to 16) on a CPU: bytes.
struct Measured {
  const char* network;
  int side;
  double bytes;
};
constexpr Measured kMeasured[] = {
    {"resnet18", 64, 750},          {"resnet18", 128, 724},        {"resnet18", 224, 744},
    {"resnet50", 64, 2695},         {"resnet50", 128, 2550},       {"resnet50", 224, 2652},
    {"densenet121", 64, 3284},      {"densenet121", 128, 3129},    {"densenet121", 224, 3003},
    {"wide_resnet50_2", 128, 3644}, {"resnext50_32x4d", 128, 3734}};

TEST(StepMemory, TheLeastIsLessThanWhatWasMeasuredAndNotMuchLess) {
  for (const auto& [network, side, bytes] : kMeasured) {
    const double least =
        least_step_bytes(known_network(network), {.height = side, .width = side, .batch_size = 4});
    const double measured = bytes * side * side * 4;
    EXPECT_LT(least, measured) << network << " " << side;
    EXPECT_GT(least * kMostToLeast, measured) << network << " " << side;
  }
}

TEST(StepMemory, EveryNetworkHasAnEstimate) {
  for (const KnownNetwork& network : known_networks()) {
    const StepSize step{.height = 100, .width = 100};
    StepSize forward = step, half = step;
    forward.is_backward = false;
    half.is_half = true;
    const double least = least_step_bytes(network, step);
    EXPECT_LT(least_step_bytes(network, forward), least / 5) << network.name;
    EXPECT_LT(least_step_bytes(network, half), least * 0.6) << network.name;
  }
  const KnownNetwork& densenet = known_network("densenet121");
  EXPECT_LT(least_step_bytes(densenet, {.height = 100, .width = 100, .memory_efficient = true}),
            least_step_bytes(densenet, {.height = 100, .width = 100}) / 2);
}

}  // namespace
}  // namespace kiln
