// How far a model's confidence can be trusted, as plain values: the softmax temperature, and how
// often the model was right at each confidence level. Computed by train/, stored by store/, shown
// by report/.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

// The images whose prediction has a confidence from `from` up to the start of the next bin, and how
// many of them were predicted correctly.
struct AnswerBin {
  double from = 0;
  std::int64_t images = 0, right = 0;
  bool operator==(const AnswerBin&) const = default;
};

// Empty bins in ascending order, starting at 0: steps of 0.001 up to 0.99, then 100 bins for each
// further nine up to 1 - 1e-7, because a target such as "99.9 % right" is met by confidences close
// to 1.
std::vector<AnswerBin> empty_answer_bins();

// Adds one prediction to `bins`, the first of which starts at 0. `confidence` is in [0, 1].
void count_answer(double confidence, bool is_right, std::vector<AnswerBin>& bins);

inline constexpr double kLowestTemperature = 0.05, kHighestTemperature = 20;

// Whether the fit ended at a limit: the confidence then does not tell right answers from wrong
// ones.
inline bool is_at_limit(double temperature) {
  return temperature < 1.001 * kLowestTemperature || temperature > 0.999 * kHighestTemperature;
}

// softmax(logits / temperature) is the model's calibrated confidence.
struct Calibration {
  double temperature = 1;
  // The validation images on which the temperature was fitted, binned by calibrated confidence.
  // Bins without images are left out. Empty: unknown.
  std::vector<AnswerBin> answers;
  bool operator==(const Calibration&) const = default;
};

}  // namespace kiln
