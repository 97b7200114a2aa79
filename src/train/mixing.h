// Mixing of training images in pairs. Mixup blends both images, Zhang et al., arXiv:1710.09412;
// CutMix exchanges a rectangle, Yun et al., arXiv:1905.04899. Both images of a pair keep two
// labels, each by its share of the image.
//
// A pair is the places 2k and 2k + 1 of a global batch, in the order in which a single process
// would have it, and what is drawn for it depends on its number in the epoch alone. So ranks mix as
// one process does, however many they are, as long as a rank's batch is even.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "data/loader/device_uploader.h"
#include "train/recipe.h"

namespace kiln {

// A rectangle, its ends excluded; empty: none.
struct Box {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// How one pair of images is mixed.
struct PairMix {
  double blend = 1;  // share of an image's own pixels outside of the box
  Box box;           // inside of it, all are the other image's
  double share = 1;  // of the image's own label
};

// How the pair with this number in the epoch, from 0, is mixed; for images of this size. Where both
// kinds are asked for, each is as likely.
PairMix pair_mix(const MixPlan& plan, std::uint64_t epoch, std::uint64_t pair, std::int64_t height,
                 std::int64_t width);

// From the distribution Beta(alpha, alpha).
double beta_draw(double alpha, RandomSequence& random);

// Where a batch stands: the number of its first pair in the epoch, and the place in the batch of
// each image, ascending; one whose partner is missing, as it could not be decoded, stays as it is.
struct BatchPlace {
  std::uint64_t epoch = 0, first_pair = 0;
  std::vector<std::uint32_t> places;
};

// The batch, mixed, in memory of its own; `other_labels` and `shares` are set. The label with the
// larger share is in `labels`, for whoever counts answers.
DeviceBatch mixed(const DeviceBatch& batch, const MixPlan& plan, const BatchPlace& place);

}  // namespace kiln
