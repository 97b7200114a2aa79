// Which of many images are worth labeling: those that, once labeled, leave a linear head on the
// features the least uncertain about all of them. Again and again the one that lowers the mean
// variance of a ridge regression's answers most: Yu, Bi and Tresp, "Active learning via
// transductive experimental design", 2006. What the model doubts does not count: with few labels it
// says little.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/scores/score_formats.h"

namespace kiln {

struct Candidate {
  std::uint32_t image = 0;  // its index in the set
  std::uint64_t hash = 0;   // of its bytes
  Score score;
  at::Tensor features;  // [D]
};

// One thread. Memory does not grow with the number of images: of at most 40,000, or four for each
// one to choose, the features are kept, as float16.
class LabelingChoice {
 public:
  explicit LabelingChoice(std::size_t count);

  void add(Candidate candidate);
  // Images whose labels are known, [N, D]: what they tell needs no other.
  void add_labeled(const at::Tensor& features);
  // The images, in the order of choice; fewer than asked for only if there are no more. Of images
  // whose features are the same (kSameFeatures) one is chosen. The order in which they came does
  // not matter.
  std::vector<Candidate> take();

 private:
  void draw();

  const std::size_t count_, size_;  // of the choice, of the pool
  std::vector<Candidate> pool_;
  at::Tensor known_;  // float64 [D, D], of labeled images' features of length 1; undefined: none
};

}  // namespace kiln
