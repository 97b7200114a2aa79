#include "process/bounded_spinning.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

bool wanted(std::vector<const char*> arguments, std::vector<const char*> variables) {
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  return wants_bounded_spinning(arguments.data(), variables.data());
}

TEST(BoundedSpinning, IsForTrainingAlone) {
  EXPECT_TRUE(wanted({"kiln", "train"}, {}));
  EXPECT_TRUE(wanted({"kiln", "train", "--epochs", "3"}, {"PATH=/bin", "OMP_NUM_THREADS=2"}));
  EXPECT_FALSE(wanted({"kiln", "inspect", "train"}, {}));
  EXPECT_FALSE(wanted({"kiln", "--version"}, {}));
  EXPECT_FALSE(wanted({"kiln"}, {}));
  EXPECT_FALSE(wanted({}, {}));
}

TEST(BoundedSpinning, TheUsersChoiceWins) {
  EXPECT_FALSE(wanted({"kiln", "train"}, {"OMP_WAIT_POLICY=active"}));
  EXPECT_FALSE(wanted({"kiln", "train"}, {"PATH=/bin", "GOMP_SPINCOUNT=infinity"}));
  EXPECT_FALSE(wanted({"kiln", "train"}, {"GOMP_SPINCOUNT="})) << "set to nothing";
  EXPECT_TRUE(wanted({"kiln", "train"}, {"MY_GOMP_SPINCOUNT=1", "GOMP_SPINCOUNTS=1"}));
}

TEST(BoundedSpinning, TheProgramThatWasStartedAgainGoesOn) {
  EXPECT_FALSE(wanted({"kiln", "train"}, {kBoundedSpinning}));
}

}  // namespace
}  // namespace kiln
