// An order of images in which every class has equally many, by repeating images of small classes.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// The images in order, each repeated as often as its class needs to match the largest one: in a
// class with n images and m wanted, each comes m / n times, and m % n of them, drawn from the seed,
// once more. Every sample must have a label. A pure function of labels and seed.
std::vector<std::uint32_t> balanced_copies(const SampleTable& samples, std::uint64_t seed);

}  // namespace kiln
