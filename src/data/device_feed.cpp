#include "data/device_feed.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <vector>

namespace kiln {
namespace {

at::Tensor per_channel(const std::array<double, 3>& values, const at::Device& device) {
  const std::vector<double> list(values.begin(), values.end());
  return at::tensor(list, at::kFloat).view({1, 3, 1, 1}).to(device);
}

}  // namespace

DeviceFeed::DeviceFeed(const at::Device& device, ImageSize size, int batch_size,
                       const PixelScaling& scaling)
    : device_(device),
      size_(size),
      scaling_(scaling),
      images_(at::empty({batch_size, 3, size.height, size.width},
                        at::TensorOptions(at::kFloat).device(device),
                        at::MemoryFormat::ChannelsLast)),
      labels_(at::empty({batch_size}, at::TensorOptions(at::kLong).device(device))),
      mean_(per_channel(scaling.mean, device)),
      std_(per_channel(scaling.std, device)) {}

DeviceBatch DeviceFeed::put(const HostBatch& batch) {
  const c10::AutoGradMode no_grad(false);
  std::uint8_t* pixels = batch.pixels.get();
  auto* numbers = const_cast<std::int64_t*>(batch.labels.data());
  DeviceBatch out{images_.narrow(0, 0, batch.count), labels_.narrow(0, 0, batch.count)};
  if (device_.is_cpu()) {
    const std::size_t num_pixels = static_cast<std::size_t>(batch.count) *
                                   static_cast<std::size_t>(size_.height) *
                                   static_cast<std::size_t>(size_.width);
    normalize_pixels(pixels, num_pixels, scaling_, images_.mutable_data_ptr<float>());
  } else {
    const at::Tensor bytes =
        at::from_blob(pixels, {batch.count, size_.height, size_.width, 3}, at::kByte)
            .permute({0, 3, 1, 2});
    out.images.copy_(bytes.to(device_)).div_(255).sub_(mean_).div_(std_);
  }
  out.labels.copy_(at::from_blob(numbers, {batch.count}, at::kLong));
  return out;
}

}  // namespace kiln
