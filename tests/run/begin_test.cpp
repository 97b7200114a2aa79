// What a run will copy, of a network of 768 bytes.
#include <gtest/gtest.h>

#include "run/prepare/prepare.h"
#include "train/small_model.h"

namespace kiln {
namespace {

constexpr long long kWeights = 768;

long long copies_of(const char* optimizer, double ema, bool writes_checkpoints) {
  const auto communicator = make_local_communicator();
  Recipe recipe;
  recipe.optimizer.name = optimizer;
  recipe.ema = ema;
  const TrainState state(std::make_unique<SmallModel>(), recipe, BucketPlan{}, *communicator);
  return bytes_of_copies(state, writes_checkpoints);
}

TEST(MemoryPlan, KeepsTheWeightsOfTheBestEpoch) {
  for (const char* optimizer : {"sgd", "adamw"})
    EXPECT_EQ(copies_of(optimizer, 0.99, false), kWeights) << optimizer;
}

TEST(MemoryPlan, ACheckpointHasAllThatTrainingKeeps) {
  constexpr long long kSteps = 4;  // AdamW's count of them
  EXPECT_EQ(copies_of("sgd", 0, true), 3 * kWeights) << "and its momentum";
  EXPECT_EQ(copies_of("adamw", 0, true), 4 * kWeights + kSteps) << "and two moments";
  EXPECT_EQ(copies_of("sgd", 0.99, true), 4 * kWeights) << "and the averages";
}

}  // namespace
}  // namespace kiln
