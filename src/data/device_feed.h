// A host batch -> normalised images and labels on the device. A CPU makes floats of the bytes in
// one pass; to a GPU the bytes travel, and it converts them. One thread.
#pragma once

#include <ATen/core/Tensor.h>

#include "data/batch_loader.h"
#include "data/normalize.h"

namespace kiln {

struct DeviceBatch {
  at::Tensor images;  // float32 [N, 3, H, W], channels_last, (x / 255 - mean) / std
  at::Tensor labels;  // int64 [N]
};

class DeviceFeed {
 public:
  DeviceFeed(const at::Device& device, ImageSize size, int batch_size, const PixelScaling& scaling);

  // The tensors reuse the feed's own memory on a CPU: valid until the next put().
  DeviceBatch put(const HostBatch& batch);

  const at::Device& device() const { return device_; }

 private:
  at::Device device_;
  ImageSize size_;
  PixelScaling scaling_;
  at::Tensor images_, labels_;  // [batch_size, 3, H, W] and [batch_size]
  at::Tensor mean_, std_;       // [1, 3, 1, 1]
};

}  // namespace kiln
