// How far a model's confidence can be trusted, as plain values: the temperature of its softmax, and
// how often it was right at which confidence. Found by train/, stored by store/, shown by report/.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

// The images whose prediction has a confidence of at least `from`, but less than that of the next
// bin, and those of them that are right.
struct AnswerBin {
  double from = 0;
  std::int64_t images = 0, right = 0;
  bool operator==(const AnswerBin&) const = default;
};

// Ascending, from 0 on, all empty: steps of 0.001 up to 0.99, then 100 to each further nine up to
// 1 - 1e-7, since a demand like "99.9 % right" is met by confidences near 1.
std::vector<AnswerBin> empty_answer_bins();

// Counts one prediction in bins that begin at 0. `confidence` is from 0 to 1.
void count_answer(double confidence, bool is_right, std::vector<AnswerBin>& bins);

// The softmax of a model's logits / temperature is its calibrated confidence.
struct Calibration {
  double temperature = 1;
  // Of the validation images that chose it, by their calibrated confidence; without empty bins.
  // Empty: unknown.
  std::vector<AnswerBin> answers;
  bool operator==(const Calibration&) const = default;
};

}  // namespace kiln
