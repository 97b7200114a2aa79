// Which of many images are worth labeling: those that a model doubts, far from each other. Of a
// pool of the most doubtful, again and again the one with the most worth times distance to the
// nearest one chosen so far: a weighted k-center. Sener and Savarese, "Active learning for
// convolutional neural networks: a core-set approach", 2018, arXiv:1708.00489.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/scores/score_formats.h"

namespace kiln {

// Why an image was chosen: `kSpread`, if others were worth more, but are close to chosen ones.
enum class ChoiceReason : std::uint8_t { kUnsure, kUnlike, kSpread };

struct Candidate {
  std::uint32_t image = 0;  // its index in the set
  Score score;              // of one label, with the two most probable classes
  at::Tensor features;      // [D]
  // Set by the choice.
  double worth = 0;
  ChoiceReason reason = ChoiceReason::kUnsure;
};

// One thread. Memory does not grow with the number of images: for each one to choose the features
// of up to 20 are kept, as float16, and of 2,000 at least.
class LabelingChoice {
 public:
  explicit LabelingChoice(std::size_t count);

  void add(Candidate candidate);
  // The images, in the order of choice; fewer than asked for only if the pool has no more. Of
  // images whose features are the same (kSameFeatures) one is chosen.
  std::vector<Candidate> take();

 private:
  void keep_best();

  const std::size_t count_, size_;  // of the choice, of the pool
  std::vector<Candidate> pool_;
};

}  // namespace kiln
