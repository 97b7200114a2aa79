// The real module on a made-up CUDA runtime: this program's functions take the place of
// libcudart's. It has two GPUs and nothing that runs on them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "parallel/device/device.h"

namespace {
thread_local int current_gpu = 0;
int freed_on = -1;
}  // namespace

extern "C" {

int cudaGetDevice(int* gpu) {
  *gpu = current_gpu;
  return 0;
}
int cudaSetDevice(int gpu) {
  current_gpu = gpu;
  return 0;
}
int cudaGetLastError() {
  return 0;  // LibTorch has asked before
}
int cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  return 0;
}
int cudaFreeHost(void* memory) {
  freed_on = current_gpu;
  std::free(memory);
  return 0;
}

}  // extern "C"

namespace kiln {
namespace {

// On GPU 0 it would make a context there.
TEST(CudaRuntime, PinnedMemoryIsFreedOnItsGpuByAThreadThatNeverUsedOne) {
  std::thread([memory = pinned_memory({.is_cuda = true, .index = 1}, 64)]() mutable {
    memory.reset();
  }).join();
  EXPECT_EQ(freed_on, 1);
}

TEST(CudaRuntime, WhyTheFirstTensorCannotBeMadeIsSaidInLibTorchsWords) {
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  ASSERT_NE(module, nullptr) << fault;
  const std::string words = module->device_fault(0);
  EXPECT_FALSE(words.empty());
  EXPECT_EQ(words.find("kernel image"), words.npos) << words;
  EXPECT_EQ(words.find('\n'), words.npos) << words;
}

}  // namespace
}  // namespace kiln
