#include "run/prepare/step_fits.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

StepNeed need_of(int side, int batch_size, double free) {
  return {.network = "resnet18",
          .step = {.height = side, .width = side, .batch_size = batch_size},
          .free = free,
          .size_option = "--image-size"};
}

TEST(StepFits, OnlyWhatCannotFitIsRefused) {
  const double least = least_step_bytes(known_network("resnet18"), need_of(224, 16, 0).step);
  EXPECT_EQ(step_fault(need_of(224, 16, least)), "");
  EXPECT_NE(step_fault(need_of(224, 16, least - 1)), "");
  EXPECT_EQ(step_warning(need_of(224, 16, least * kMostToLeast)), "");
  EXPECT_NE(step_warning(need_of(224, 16, least * kMostToLeast - 1)), "");
}

TEST(StepFits, TheAdviceFits) {
  const std::string fault = step_fault(need_of(1512, 16, 4e9));
  EXPECT_NE(fault.find("--batch-size 2 or less, or --image-size 544 or less"), std::string::npos)
      << fault;
  EXPECT_EQ(step_warning(need_of(1512, 2, 4e9)), "");
  EXPECT_EQ(step_warning(need_of(544, 16, 4e9)), "");
}

TEST(StepFits, AdviceThatCannotHelpIsNotGiven) {
  const std::string one = step_fault(need_of(13000, 1, 20e9));
  EXPECT_EQ(one.find("--batch-size"), std::string::npos) << one;
  EXPECT_NE(one.find("--image-size"), std::string::npos) << one;
  StepNeed small = need_of(32, 64, 1e6);
  small.least_batch = 2;
  EXPECT_EQ(step_fault(small).find("--image-size"), std::string::npos) << step_fault(small);
}

}  // namespace
}  // namespace kiln
