// How far an accuracy that was measured on some images may be from that on all images of the kind.
#pragma once

#include <cstdint>

namespace kiln {

struct Interval {
  double low = 0, high = 1;
};

// The 95 % interval of a share, of which `hits` of `count` were seen. E. B. Wilson, Probable
// Inference, the Law of Succession, and Statistical Inference, Journal of the American Statistical
// Association 22 (1927): it stays within 0 and 1, and holds for few images and shares near 1.
// 0 to 1 for a count of 0.
Interval wilson_interval(std::int64_t hits, std::int64_t count);

}  // namespace kiln
