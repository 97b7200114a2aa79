// Validation, whose steps the caller runs; the sums of loss and accuracy of validation and
// training; and the temperature that calibrates the confidences.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "model/image_model.h"
#include "model/operators/autocast.h"
#include "record/training_record.h"
#include "record/vocabulary.h"
#include "train/task.h"

namespace kiln {

// This rank's images: logits [N, num_classes], row-major, and labels [N]. The memory must outlive
// it.
struct LabeledLogits {
  std::span<const float> logits;
  std::span<const std::int32_t> labels;
  int num_classes = 0;
};

// Sums three numbers over all ranks. The result must be bitwise equal on every rank.
using SumOfAllRanks = std::function<std::array<double, 3>(const std::array<double, 3>&)>;

// The temperature that minimizes the mean cross-entropy of softmax(logits / temperature), which
// changes no prediction but calibrates the confidences. Guo, Pleiss, Sun and Weinberger, On
// Calibration of Modern Neural Networks, ICML 2017, section 4.2. The cross-entropy is convex in 1 /
// temperature, so Newton's method within a shrinking bracket finds the minimum, in about 7 passes
// over the logits. Returns 1 if nothing can be fitted: without images, and if all predictions are
// right, since the cross-entropy then keeps falling with the temperature. A collective if `sum` is.
// The result is the same on every rank, and bitwise reproducible for the same number of ranks.
// Throws Error kFailedToCompleteOperation, on all ranks, for logits that are not finite.
double fit_temperature(const LabeledLogits& images, const SumOfAllRanks& sum = {});

// Adds this rank's images to `bins`, by the confidence of their prediction at `temperature`.
void count_answers(const LabeledLogits& images, double temperature, std::vector<AnswerBin>& bins);

// Selects the validation images used to fit the temperature: all of them, or about as many as fit
// into 64 MiB of logits over all ranks, drawn at random by image index. Since a single number is
// fitted, more images would not change it noticeably.
class CalibrationSample {
 public:
  CalibrationSample() = default;  // all images
  CalibrationSample(std::uint64_t num_images, int num_classes);
  bool holds(std::uint64_t image) const;

 private:
  double share_ = 1;
};

// Sums of loss and accuracy on the device. Nothing is copied to the host until they are read.
class MetricSums {
 public:
  explicit MetricSums(const at::Device& device);

  // logits [N, C], labels [N]; loss_sum []: the losses summed over the images. `step` counts from
  // 1.
  void add(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& loss_sum, int step,
           const Task& task = single_label());

  struct Values {
    Totals batch, totals;          // of the last add(), of all add() calls
    int first_nonfinite_step = 0;  // the first step whose loss was not finite; 0: none
  };
  Values read() const;  // waits for the device, once
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
  static constexpr std::size_t kNumNext = 4;

  std::uint32_t sample = 0;  // index into the samples of the loader's dataset
  std::int32_t label = 0, predicted = 0;
  float confidence = 0;  // probability of the predicted class
  // The next likeliest classes and their probabilities; as many as there are.
  std::array<std::int32_t, kNumNext> next = {-1, -1, -1, -1};
  std::array<float, kNumNext> next_shares = {};
};

// Completes the predictions of the N images.
void set_answers(const Answers& answers, std::span<Prediction> predictions);

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
            const CalibrationSample& sample, const Task& task = single_label());

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
  const KeptCasts kept_casts_;
  ImageModel& model_;
  BatchLoader& loader_;
  DeviceUploader& uploader_;
  Precision precision_;
  const Task& task_;
  MetricSums metrics_;
  int steps_ = 0;
  std::vector<Prediction> predictions_;
  // Of each batch. They stay on the device until the pass is complete.
  std::vector<at::Tensor> shares_, classes_;
  CalibrationSample sample_;
  std::vector<at::Tensor> logits_;  // likewise, [n, C] in float32
  std::vector<std::int32_t> labels_;
};

}  // namespace kiln
