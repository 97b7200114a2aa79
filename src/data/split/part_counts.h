// How many images of each class go into each part of a split: the same numbers as the designer's
// Split Image Directory.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// Divides n images: floor(fraction * n) in each part, and the rest in the last one, but at least
// one in each. n is at least the number of fractions, none of which is less than 1/n.
std::vector<long long> part_sizes(const std::vector<double>& fractions, long long n);

struct ClassCounts {
  std::string name;
  long long count = 0;  // at least 1
};

struct PartCounts {
  std::vector<std::vector<long long>> wanted;  // [parts][classes]; empty: not by class
  std::string why_not;                         // a clause that says why `wanted` is empty
};

// Divides the images of each class among parts of these sizes, as scikit-learn's
// StratifiedShuffleSplit(random_state=42) does: each class gets its exact share, rounded down, and
// the remaining images go to the largest remainders; ties are broken by draws from its generator. A
// third part is split off from what the first one leaves. As in scikit-learn, the split is not by
// class if a class has fewer images than there are parts, or a part fewer images than there are
// classes.
PartCounts share_out(const std::vector<ClassCounts>& classes, const std::vector<long long>& sizes);

}  // namespace kiln
