// Images -> what a frozen backbone makes of them, stepped by its caller.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/vocabulary.h"
#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "model/image_model.h"

namespace kiln {

struct LabeledFeatures {
  at::Tensor rows;                     // [N, D] float32, host, row-major; undefined for no images
  std::vector<std::int32_t> labels;    // [N]
  std::vector<std::uint32_t> samples;  // [N] index into the samples of the loader's set

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

// One thread.
class FeaturePass {
 public:
  // All references must outlive it. The model is in eval mode from now on. `num_images`: at most
  // so many come.
  FeaturePass(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader, Precision precision,
              std::int64_t num_images);

  // The next batch; false if there is none.
  bool step();
  int steps_done() const { return steps_; }
  std::int64_t images_done() const { return static_cast<std::int64_t>(features_.labels.size()); }
  // Of all images that could be decoded, in the loader's order. Call it once.
  LabeledFeatures take();

 private:
  ImageModel& model_;
  BatchLoader& loader_;
  DeviceUploader& uploader_;
  Precision precision_;
  std::int64_t num_images_;
  int steps_ = 0;
  LabeledFeatures features_;
};

}  // namespace kiln
