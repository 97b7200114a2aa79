// Temperature scaling of a trained model's softmax: dividing the logits by the temperature changes
// no prediction but calibrates the confidences. Guo, Pleiss, Sun and Weinberger, On Calibration of
// Modern Neural Networks, ICML 2017, section 4.2.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "record/calibration.h"

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

// The temperature that minimizes the mean cross-entropy of softmax(logits / temperature). The
// cross-entropy is convex in 1 / temperature, so Newton's method within a shrinking bracket finds
// the minimum, in about 7 passes over the logits. Returns 1 if nothing can be fitted: without
// images, and if all predictions are right, since the cross-entropy then keeps falling with the
// temperature. A collective if `sum` is. The result is the same on every rank, and bitwise
// reproducible for the same number of ranks. Throws Error kFailedToCompleteOperation, on all ranks,
// for logits that are not finite.
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

}  // namespace kiln
