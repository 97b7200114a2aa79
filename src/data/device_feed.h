// A host batch -> normalised images and labels on the device. A CPU makes floats of the bytes in
// one pass; to a GPU the bytes travel, and it converts them. One thread.
//
// The bytes travel on a stream of their own: while the GPU still computes on the batch before,
// whose kernels were queued and not waited for. put() waits for this copy alone, so that the loader
// may fill the host batch again.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

#include "data/batch_loader.h"
#include "data/normalize.h"

namespace kiln {

struct DeviceBatch {
  at::Tensor images;  // float32 [N, 3, H, W], channels_last, (x / 255 - mean) / std
  at::Tensor labels;  // int64 [N]
};

// Memory for batches that go to the device: pinned for a GPU, which fetches it without a detour.
LoaderTeam::NewRoom host_rooms(const at::Device& device);

class DeviceFeed {
 public:
  DeviceFeed(const at::Device& device, ImageSize size, int batch_size, const PixelScaling& scaling);

  // The tensors reuse the feed's own memory: valid until the next put(), on a GPU for what is
  // queued on the current stream before it.
  DeviceBatch put(const HostBatch& batch);

  const at::Device& device() const { return device_; }

 private:
  at::Tensor copied(const at::Tensor& host) const;

  at::Device device_;
  std::optional<c10::Stream> copies_;  // of a GPU
  ImageSize size_;
  PixelScaling scaling_;
  at::Tensor images_, labels_;  // [batch_size, 3, H, W] and [batch_size]
  at::Tensor mean_, std_;       // [1, 3, 1, 1]
};

}  // namespace kiln
