// Validation, run step by step by the caller, and the sums of loss and accuracy used by validation
// and training.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "model/image_model.h"
#include "record/training_record.h"
#include "record/vocabulary.h"
#include "train/temperature.h"

namespace kiln {

// Sums of loss and accuracy on the device. Nothing is copied to the host until they are read.
class MetricSums {
 public:
  explicit MetricSums(const at::Device& device);

  // logits [N, C], labels [N]; loss_sum []: the losses summed over the images. `step` counts from
  // 1.
  void add(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& loss_sum,
           int step);

  struct Values {
    Totals batch, totals;          // of the last add(), of all add() calls
    int first_nonfinite_step = 0;  // the first step whose loss was not finite; 0: none
  };
  Values read() const;  // waits for the device, once
  // One of them.
  Totals batch() const { return read().batch; }
  Totals totals() const { return read().totals; }
  int first_nonfinite_step() const { return read().first_nonfinite_step; }

  // Continues from these sums, which must be finite.
  void set(const Totals& totals);

 private:
  at::Tensor sums_, batch_sums_;     // double [3]: loss, top-1, top-5
  at::Tensor first_nonfinite_step_;  // double [1]
  std::int64_t count_ = 0, batch_count_ = 0;
};

struct Prediction {
  std::uint32_t sample = 0;  // index into the samples of the loader's dataset
  std::int32_t label = 0, predicted = 0;
  float confidence = 0;  // softmax of the predicted class
};

// The logits of images, in float32 on the host.
struct HostLogits {
  at::Tensor logits;  // [N, C], row-major; undefined for no images
  std::vector<std::int32_t> labels;

  LabeledLogits view() const;
};

// One pass over the validation images, batch by batch. Collects the sums, the prediction for each
// image, and the logits of the images used to fit the temperature. The caller owns the loop. One
// thread.
class Evaluator {
 public:
  // All references must outlive it. Puts the model into eval mode.
  Evaluator(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader, Precision precision,
            const CalibrationSample& sample);

  // Evaluates the next batch; false if there is none.
  bool step();
  int steps_done() const { return steps_; }

  // The next three wait for the device. The caller must check that the loss is finite.
  Totals totals() const { return metrics_.totals(); }
  // For all images that could be decoded, in the loader's order. Call it once.
  std::vector<Prediction> take_predictions();
  // The logits of the images in the calibration sample. Call it once.
  HostLogits take_logits();

 private:
  void keep_logits(const at::Tensor& logits, const HostBatch& batch);

  ImageModel& model_;
  BatchLoader& loader_;
  DeviceUploader& uploader_;
  Precision precision_;
  MetricSums metrics_;
  int steps_ = 0;
  std::vector<Prediction> predictions_;
  // [N] per batch. Predictions stay on the device until the pass is complete.
  std::vector<at::Tensor> confidences_, predicted_;
  CalibrationSample sample_;
  std::vector<at::Tensor> logits_;  // likewise, [n, C] in float32
  std::vector<std::int32_t> labels_;
};

}  // namespace kiln
