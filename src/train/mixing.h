// Mixes training images in pairs. Mixup blends the two images, Zhang et al., arXiv:1710.09412;
// CutMix swaps a rectangle, Yun et al., arXiv:1905.04899. Each image then has both labels, weighted
// by their shares of the image. A pair consists of positions 2k and 2k + 1 of the global batch,
// ordered as in a single process. Its random draws depend only on the pair's number in the epoch.
// So any number of ranks mix the same way as one process, as long as each rank's batch size is
// even.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "data/loader/device_uploader.h"
#include "train/recipe.h"

namespace kiln {

// How one pair of images is mixed.
struct PairMix {
  double blend = 1;  // weight of an image's own pixels outside the box
  double share = 1;  // share of the image's own label
  // A box, in which all pixels are the other image's; bottom and right are exclusive. Empty: none.
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// How the pair with this number in the epoch, from 0, is mixed, for images of this size. If both
// kinds are enabled, each has probability 1/2.
PairMix pair_mix(const MixPlan& plan, std::uint64_t epoch, std::uint64_t pair, std::int64_t height,
                 std::int64_t width);

// Draws from the distribution Beta(alpha, alpha).
double beta_draw(double alpha, RandomSequence& random);

// How the images of a batch are mixed, all of it: to be uploaded with the batch, so that mixing
// never waits for a GPU. `first_pair`: the number of its first pair in the epoch. `places`: the
// position of each image in the batch, ascending. An image whose partner is missing, because it
// could not be decoded, is not mixed.
std::vector<float> mix_numbers(const MixPlan& plan, std::uint64_t epoch, std::uint64_t first_pair,
                               const std::vector<std::uint32_t>& places, ImageSize size);

// Returns a mixed copy of the batch, whose `numbers` are mix_numbers(), with `other_labels` and
// `shares` set. `labels` has the label with the larger share, by which accuracy is counted.
DeviceBatch mixed(const DeviceBatch& batch, const MixPlan& plan);

}  // namespace kiln
