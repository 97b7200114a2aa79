// Turns a host batch into normalized images and labels on the device. A CPU uses the loader's
// floats in place; a GPU receives bytes and normalizes them itself. Use from one thread.
//
// Copies to a GPU use a separate stream, so they overlap with the previous batch's kernels, which
// are queued but not waited for. The host does not wait for the copies either: the kernels that
// follow on the current stream do, and HostBatch::release(), before the loader refills the batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <vector>

#include "data/loader/batch_loader.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

struct DeviceBatch {
  at::Tensor images;  // float32 [N, 3, H, W], channels_last, (x / 255 - mean) / std
  at::Tensor labels;  // int64 [N]
  // For images mixed from two (mixup, cutmix): the second label, and the share of the first one,
  // float32 [N], at least one half. Undefined: not mixed.
  at::Tensor other_labels = {}, shares = {};
  at::Tensor numbers = {};  // float32, those that upload() was given
  // Of the images in the training loss, and of the second labels, float32 [N]. Undefined: all 1.
  at::Tensor weights = {}, other_weights = {};
};

// The memory layout of host batches for a device. For a GPU they are in `pinned` memory.
struct HostBatchLayout {
  NewBuffer new_buffer;
  std::optional<Normalization> scaling;  // for BatchPlan
};
HostBatchLayout host_batch_layout(const at::Device& device, const Normalization& scaling,
                                  NewBuffer pinned);

class DeviceUploader {
 public:
  DeviceUploader(const at::Device& device, ImageSize size, int batch_size,
                 const Normalization& scaling);

  // `batch` must have the device's layout. On a CPU the images share its memory. Labels, and on a
  // GPU the images, are in the uploader's memory: valid until the next upload(), and on a GPU for
  // work queued on the current stream before it. cuDNN benchmarks its convolution algorithms (which
  // takes seconds per shape) only for full batches, where enough of them are expected, and not if
  // it must be deterministic. `numbers` go along, such as those of a mix (train/mixing.h): at most
  // kMaxNumbers per image.
  DeviceBatch upload(const HostBatch& batch, const std::vector<float>& numbers = {});

  static constexpr int kMaxNumbers = 8;

  // How many batches of this run are to come; without it, many.
  void expect(std::int64_t num_batches) { is_worth_measuring_ = num_batches >= kWorthMeasuring; }
  static constexpr std::int64_t kWorthMeasuring = 50;

  const at::Device& device() const { return device_; }
  ImageSize size() const { return size_; }

 private:
  at::Tensor queued_copy(const at::Tensor& host) const;

  at::Device device_;
  std::optional<c10::Stream> copies_;  // the copy stream, on a GPU
  ImageSize size_;
  bool is_worth_measuring_ = true;
  at::Tensor labels_;      // [batch_size]
  at::Tensor images_;      // [batch_size, 3, H, W], on a GPU
  at::Tensor mean_, std_;  // [1, 3, 1, 1], on a GPU
  // On the host, pinned for a GPU; labels for a GPU alone.
  at::Tensor numbers_, host_labels_;
  std::shared_ptr<c10::Event> copied_;  // the last batch
};

}  // namespace kiln
