// The temperature of a trained model's softmax: dividing the logits by it changes no prediction,
// but makes the confidences mean what they say. Guo, Pleiss, Sun and Weinberger, On Calibration of
// Modern Neural Networks, ICML 2017, section 4.2.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/calibration.h"

namespace kiln {

inline constexpr double kLowestTemperature = 0.05, kHighestTemperature = 20;

// Of this rank's images: logits [N, num_classes], row by row, labels [N]. The spans must outlive
// it.
struct LabeledLogits {
  std::span<const float> logits;
  std::span<const std::int32_t> labels;
  int num_classes = 0;
};

// Of all ranks, instead of this rank's three numbers; the same bits on every rank.
using SumOfAllRanks = std::function<std::array<double, 3>(const std::array<double, 3>&)>;

// The temperature that minimizes the mean cross-entropy of softmax(logits / temperature). The
// cross-entropy is convex in 1 / temperature, so Newton's method within a shrinking bracket finds
// the minimum, in about 7 passes over the logits. 1 where nothing can be learned: without images,
// and where all of them are right, since their cross-entropy falls as long as the temperature does.
// A collective if `sum` is one; the result is the same on every rank, and for the same ranks the
// same to the bit. Throws Error kFailedToCompleteOperation, on all ranks, for logits that are not
// finite.
double fit_temperature(const LabeledLogits& images, const SumOfAllRanks& sum = {});

// Counts this rank's images in `bins`, by the confidence of their prediction at `temperature`.
void count_answers(const LabeledLogits& images, double temperature, std::vector<AnswerBin>& bins);

// Whether an image of a validation set is among those that choose the temperature: all of them, or
// about as many as fit into 64 MiB of logits over all ranks, drawn by the image's index. One number
// is fitted, so more images would not change it noticeably.
class CalibrationSample {
 public:
  CalibrationSample() = default;  // all images
  CalibrationSample(std::uint64_t num_images, int num_classes);
  bool holds(std::uint64_t image) const;

 private:
  double share_ = 1;
};

}  // namespace kiln
