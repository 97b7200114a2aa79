#include "data/loader/device_uploader.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/device/device.h"

namespace kiln {
namespace {

constexpr int kSide = 8, kBatch = 6;
constexpr Normalization kScaling = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

class DeviceUploaderTest : public testing::Test {
 protected:
  // Before any other call into LibTorch.
  static void SetUpTestSuite() { gpu = choose_device(DeviceChoice::kAuto); }

  // Fills it as the loader would.
  static void fill(HostBatch& batch, const HostBatchLayout& layout, int count, int first) {
    batch.count = count;
    batch.labels.clear();
    for (int i = 0; i < count; ++i) batch.labels.push_back(first + i);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * kSide * kSide * 3);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(first) + i * 7);
    if (layout.scaling)
      normalize_pixels(bytes.data(), bytes.size() / 3, *layout.scaling,
                       reinterpret_cast<float*>(batch.pixels.get()));
    else
      std::ranges::copy(bytes, batch.pixels.get());
  }

  static at::Tensor expected(int count, int first) {
    const at::Tensor bytes =
        (at::arange(count * kSide * kSide * 3).mul(7).add(first)).remainder(256).to(at::kFloat);
    const auto of = [](const std::array<double, 3>& v) {
      return at::tensor({v[0], v[1], v[2]}, at::kFloat);
    };
    return bytes.view({count, kSide, kSide, 3})
        .div(255)
        .sub(of(kScaling.mean))
        .div(of(kScaling.std))
        .permute({0, 3, 1, 2});
  }

  // On a GPU the host batch is overwritten as soon as it may be, before the result is read.
  static void check(const at::Device& device) {
    DeviceUploader uploader(device, {kSide, kSide}, kBatch, kScaling);
    const HostBatchLayout layout = host_batch_layout(device, kScaling, pinned);
    HostBatch host;
    host.pixels = layout.new_buffer(kBatch * kSide * kSide * 3 * sizeof(float));
    for (int round = 0; round < 20; ++round) {
      const int count = round % 5 == 4 ? kBatch - 1 : kBatch;
      fill(host, layout, count, round);
      const DeviceBatch batch = uploader.upload(host);
      EXPECT_EQ(host.wait_for_reader != nullptr, !device.is_cpu());
      host.release();
      if (!device.is_cpu()) fill(host, layout, kBatch, round + 100);
      EXPECT_EQ(batch.images.device().type(), device.type());
      EXPECT_TRUE(batch.images.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_TRUE(at::allclose(batch.images.cpu(), expected(count, round), 0, 1e-6)) << round;
      EXPECT_TRUE(at::equal(batch.labels.cpu(), at::arange(count).add(round))) << round;
    }
  }

  static BatchBuffer pinned(std::size_t bytes) { return pinned_memory(gpu, bytes); }

  static inline Device gpu;
};

TEST_F(DeviceUploaderTest, UsesTheLoadersFloatsOnTheCpu) {
  check(at::kCPU);
}

// A batch of another size would be measured anew, for seconds.
TEST_F(DeviceUploaderTest, CudnnMeasuresItsConvolutionsForWholeBatchesOnly) {
  at::Context& context = at::globalContext();
  DeviceUploader uploader(at::kCPU, {kSide, kSide}, kBatch, kScaling);
  const HostBatchLayout layout = host_batch_layout(at::kCPU, kScaling, pinned);
  HostBatch host;
  host.pixels = layout.new_buffer(kBatch * kSide * kSide * 3 * sizeof(float));
  const auto measures = [&](int count) {
    fill(host, layout, count, 0);
    uploader.upload(host);
    return context.benchmarkCuDNN();
  };
  EXPECT_TRUE(measures(kBatch));
  EXPECT_FALSE(measures(kBatch - 1));
  EXPECT_TRUE(measures(kBatch));
  context.setDeterministicCuDNN(true);
  EXPECT_FALSE(measures(kBatch));
  context.setDeterministicCuDNN(false);
  uploader.expect(49);
  EXPECT_FALSE(measures(kBatch)) << "it would take longer than it saves";
  uploader.expect(50);
  EXPECT_TRUE(measures(kBatch));
}

TEST_F(DeviceUploaderTest, NormalizesOnAGpu) {
  if (!gpu.is_cuda) GTEST_SKIP() << "needs a GPU: " << gpu.description;
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(gpu.index));
  at::globalContext().lazyInitDevice(at::kCUDA);  // before it, no memory counts as pinned
  const BatchBuffer buffer = pinned(1 << 20);
  EXPECT_TRUE(at::from_blob(buffer.get(), {1 << 20}, at::kByte).is_pinned());
  check(device);
}

}  // namespace
}  // namespace kiln
