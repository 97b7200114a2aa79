#include "record/calibration.h"

#include <algorithm>
#include <cmath>

namespace kiln {

std::vector<AnswerBin> empty_answer_bins() {
  constexpr int kThousandths = 990, kToEachNine = 100, kNines = 5;
  std::vector<AnswerBin> bins;
  bins.reserve(kThousandths + kToEachNine * kNines + 1);
  for (int i = 0; i < kThousandths; ++i) bins.push_back({i / 1000.0});
  for (int i = 0; i <= kToEachNine * kNines; ++i)
    bins.push_back({1 - 0.01 * std::pow(10.0, -static_cast<double>(i) / kToEachNine)});
  return bins;
}

void count_answer(double confidence, bool is_right, std::vector<AnswerBin>& bins) {
  const auto next =
      std::upper_bound(bins.begin(), bins.end(), confidence,
                       [](double value, const AnswerBin& bin) { return value < bin.from; });
  AnswerBin& bin = next == bins.begin() ? *next : *(next - 1);
  ++bin.images;
  if (is_right) ++bin.right;
}

}  // namespace kiln
