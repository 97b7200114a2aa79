#include "data/loader/device_uploader.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

at::Tensor per_channel(const std::array<double, 3>& values, const at::Device& device) {
  const std::vector<double> list(values.begin(), values.end());
  return at::tensor(list, at::kFloat).view({1, 3, 1, 1}).to(device);
}

}  // namespace

HostBatchLayout host_batch_layout(const at::Device& device, const Normalization& scaling,
                                  NewBuffer pinned) {
  if (device.is_cpu()) return {ordinary_buffer, scaling};
  return {std::move(pinned), {}};
}

DeviceUploader::DeviceUploader(const at::Device& device, ImageSize size, int batch_size,
                               const Normalization& scaling)
    : device_(device),
      size_(size),
      labels_(at::empty({batch_size}, at::TensorOptions(at::kLong).device(device))),
      numbers_(at::empty({batch_size * kMaxNumbers},
                         at::TensorOptions(at::kFloat).pinned_memory(device.is_cuda()))) {
  if (device.is_cpu()) return;
  images_ = at::empty({batch_size, 3, size.height, size.width},
                      at::TensorOptions(at::kFloat).device(device), at::MemoryFormat::ChannelsLast);
  mean_ = per_channel(scaling.mean, device);
  std_ = per_channel(scaling.std, device);
  host_labels_ = at::empty({batch_size}, at::TensorOptions(at::kLong).pinned_memory(true));
  copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

// Returns a copy on the device that is not there before the copy stream has been waited for.
at::Tensor DeviceUploader::queued_copy(const at::Tensor& host) const {
  const c10::Stream current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const c10::StreamGuard on(*copies_);
  at::Tensor there = host.to(device_, /*non_blocking=*/true);
  there.record_stream(current);  // its memory was allocated on the other stream
  return there;
}

DeviceBatch DeviceUploader::upload(const HostBatch& batch, const std::vector<float>& numbers) {
  const c10::AutoGradMode no_grad(false);
  if (copied_) copied_->synchronize();  // numbers_ and host_labels_ are written again
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(is_worth_measuring_ && batch.count == labels_.size(0) &&
                            !context.deterministicCuDNN());
  const std::array<std::int64_t, 4> shape = {batch.count, size_.height, size_.width, 3};
  const at::Tensor labels =
      at::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {batch.count}, at::kLong);
  DeviceBatch out{{}, labels_.narrow(0, 0, batch.count)};
  if (!numbers.empty()) {
    out.numbers = numbers_.narrow(0, 0, static_cast<std::int64_t>(numbers.size()));
    std::copy(numbers.begin(), numbers.end(), out.numbers.mutable_data_ptr<float>());
    if (device_.is_cuda()) out.numbers = queued_copy(out.numbers);
  }
  if (!batch.weights.empty()) {
    out.weights = at::tensor(batch.weights, at::kFloat);
    if (device_.is_cuda()) out.weights = queued_copy(out.weights);
  }
  if (device_.is_cpu()) {
    out.images =
        at::from_blob(const_cast<float*>(batch.floats()), shape, at::kFloat).permute({0, 3, 1, 2});
    out.labels.copy_(labels);
  } else {
    const at::Tensor bytes =
        at::from_blob(batch.pixels.get(), shape, at::kByte).permute({0, 3, 1, 2});
    const at::Tensor bytes_there = queued_copy(bytes);
    const at::Tensor labels_there =
        queued_copy(host_labels_.narrow(0, 0, batch.count).copy_(labels));
    copied_ = std::make_shared<c10::Event>(device_.type());
    copied_->record(*copies_);
    copied_->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    batch.wait_for_reader = [copied = copied_] {
      try {
        copied->synchronize();
      } catch (const c10::Error&) {  // a GPU that is broken reads nothing
      }
    };
    out.images = images_.narrow(0, 0, batch.count);
    out.images.copy_(bytes_there).div_(255).sub_(mean_).div_(std_);
    out.labels.copy_(labels_there);
  }
  return out;
}

}  // namespace kiln
