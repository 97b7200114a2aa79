// The real module: it can be loaded and queried on any machine; tests that need a GPU are skipped.
#include "parallel/device/device.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "parallel/gradients/nccl.h"

namespace kiln {
namespace {

// LibTorch looks for CUDA once, at its first use, so the module must be loaded before.
struct CudaModuleTest : testing::Test {
  void SetUp() override {
    std::string fault;
    module = open_cuda_module(&fault);
    ASSERT_NE(module, nullptr) << fault;
  }
  const CudaModule* module = nullptr;
};

TEST_F(CudaModuleTest, LoadsAndKnowsItsVersions) {
  EXPECT_EQ(module->version, kCudaModuleVersion);
  EXPECT_GE(module->nccl_version(), 21800);
  EXPECT_GE(module->runtime_version(), 12000);
  EXPECT_FALSE(cuda_versions().nccl.empty());
}

TEST_F(CudaModuleTest, ReturnsAnIdOrAnErrorWithoutAGpu) {
  try {
    EXPECT_EQ(make_nccl_id().size(), 128U);
    EXPECT_NE(make_nccl_id(), make_nccl_id());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedToCompleteOperation);
    EXPECT_NE(error.message().find("NCCL"), std::string::npos) << error.message();
  }
}

TEST_F(CudaModuleTest, ACommunicatorWithoutAGpuIsRefused) {
  if (module->device_fault(0).empty()) GTEST_SKIP() << "a GPU is here";
  EXPECT_THROW(join_nccl_group({.size = 2, .id = std::string(128, 'x')}), Error);
}

TEST_F(CudaModuleTest, OneRankOnAGpuKeepsItsValues) {
  if (!module->device_fault(0).empty()) GTEST_SKIP() << "needs a GPU";
  const auto communicator = make_nccl_communicator(
      {.deadline_s = 60, .join_group = [] { return join_nccl_group({.id = make_nccl_id()}); }});
  const auto lane = communicator->second_lane("small sum");
  const at::Tensor values = at::arange(1000).to(at::Device("cuda:0"), at::kFloat);
  for (int i = 0; i < 10; ++i) {
    const auto ticket = communicator->all_reduce(values);
    lane->wait(lane->all_reduce(values.narrow(0, 0, 3)));
    communicator->wait(ticket);
  }
  EXPECT_TRUE(at::equal(values.cpu(), at::arange(1000).to(at::kFloat)));
  communicator->broadcast(values);
  EXPECT_TRUE(at::equal(values.cpu(), at::arange(1000).to(at::kFloat)));
}

}  // namespace
}  // namespace kiln
