#include <gtest/gtest.h>

#include <csignal>

#include "base/system.h"

namespace kiln {
namespace {

TEST(CheckpointRequests, AreTakenOnceAndEndNothing) {
  install_checkpoint_requests();
  EXPECT_FALSE(take_checkpoint_request());
  std::raise(SIGUSR2);
  std::raise(SIGUSR2);
  EXPECT_TRUE(take_checkpoint_request());
  EXPECT_FALSE(take_checkpoint_request());
  std::raise(SIGUSR2);
  EXPECT_TRUE(take_checkpoint_request());
  EXPECT_EQ(stop_signal(), 0);
}

}  // namespace
}  // namespace kiln
