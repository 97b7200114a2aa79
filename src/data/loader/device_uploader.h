// A host batch -> normalized images and labels on the device. A CPU takes the loader's floats as
// they lie; to a GPU bytes travel, and it scales them. One thread.
//
// The bytes travel on a stream of their own: while the GPU still computes on the batch before,
// whose kernels were queued and not waited for. put() waits for this copy alone, so that the loader
// may fill the host batch again.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

#include "data/loader/batch_loader.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

struct DeviceBatch {
  at::Tensor images;  // float32 [N, 3, H, W], channels_last, (x / 255 - mean) / std
  at::Tensor labels;  // int64 [N]
};

// How batches for a device lie in the host's memory.
struct HostBatchLayout {
  LoaderThreads::NewBuffer new_buffer;   // pinned for a GPU, which fetches it without a detour
  std::optional<Normalization> scaling;  // BatchLoader::Plan's
};
HostBatchLayout host_form(const at::Device& device, const Normalization& scaling);

class DeviceUploader {
 public:
  DeviceUploader(const at::Device& device, ImageSize size, int batch_size,
                 const Normalization& scaling);

  // `batch` has the device's layout. On a CPU the images are its memory; else, and the labels
  // always, the feed's own: valid until the next put(), on a GPU for what is queued on the current
  // stream before it.
  DeviceBatch put(const HostBatch& batch);

  const at::Device& device() const { return device_; }

 private:
  at::Tensor copied(const at::Tensor& host) const;

  at::Device device_;
  std::optional<c10::Stream> copies_;  // of a GPU
  ImageSize size_;
  at::Tensor labels_;      // [batch_size]
  at::Tensor images_;      // [batch_size, 3, H, W], of a GPU
  at::Tensor mean_, std_;  // [1, 3, 1, 1], likewise
};

}  // namespace kiln
