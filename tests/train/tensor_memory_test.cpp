#include "train/tensor_memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"
#include "base/system.h"

namespace kiln {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

class TensorMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() { keep_tensor_memory(); }

  static at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }
  static const void* place_of(const at::Tensor& tensor) { return tensor.const_data_ptr(); }
};

TEST_F(TensorMemory, IsReusedByTheSameSize) {
  at::Tensor first = bytes(3 * kMebibyte);
  const at::Tensor second = bytes(3 * kMebibyte);
  const void* place = place_of(first);
  EXPECT_NE(place, place_of(second));
  first.reset();
  EXPECT_EQ(place_of(bytes(3 * kMebibyte)), place);
}

TEST_F(TensorMemory, OfNeighborsIsJoined) {
  std::vector<at::Tensor> three = {bytes(2 * kMebibyte), bytes(2 * kMebibyte),
                                   bytes(2 * kMebibyte)};
  const void* place = place_of(three[0]);
  const at::Tensor last = bytes(kMebibyte);
  for (const int freed : {0, 2, 1}) three[freed].reset();
  EXPECT_EQ(place_of(bytes(6 * kMebibyte)), place);
}

TEST_F(TensorMemory, ThatTheSystemDoesNotHaveIsRefused) {
  const at::Tensor before = at::full({kMebibyte}, 3, at::kByte);
  try {
    bytes(available_memory_bytes() + kMebibyte);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModuleOutOfMemory);
  }
  EXPECT_EQ(bytes(5 * kMebibyte).fill_(1).sum().item<std::int64_t>(), 5 * kMebibyte);
  EXPECT_TRUE(before.eq(3).all().item<bool>());
}

TEST_F(TensorMemory, IsSharedByThreads) {
  const auto work = [](int number) {
    std::vector<at::Tensor> held(8);
    for (int i = 0; i < 400; ++i) {
      at::Tensor& one = held[static_cast<std::size_t>(i * 7 + number) % held.size()];
      EXPECT_TRUE(!one.defined() || one.eq(number).all().item<bool>());
      one = at::full({(1 + (i * 5 + number) % 9) * 200'000}, number, at::kByte);
    }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln
