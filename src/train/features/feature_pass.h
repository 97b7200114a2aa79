// Computes the features of images with a frozen backbone, one batch per call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "model/image_model.h"
#include "record/vocabulary.h"

namespace kiln {

struct LabeledFeatures {
  at::Tensor rows;                     // [N, D] float32, host, row-major; undefined for no images
  std::vector<std::int32_t> labels;    // [N]
  std::vector<std::uint32_t> samples;  // [N] indices into the samples of the loader's dataset

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

// Use from one thread.
class FeaturePass {
 public:
  // All references must outlive this object. Puts the model into eval mode. `num_images` is the
  // maximum number of images.
  FeaturePass(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader, Precision precision,
              std::int64_t num_images);

  // Processes the next batch; false if there is none.
  bool step();
  int steps_done() const { return steps_; }
  std::int64_t images_done() const { return static_cast<std::int64_t>(features_.labels.size()); }
  // The features of all images that could be decoded, in the loader's order. Call it once.
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
