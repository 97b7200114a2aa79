// An order of images in which every class has equally many, the images of small classes as copies.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// The images in their order, each as often in a row as its class needs to have as many as the
// largest: of a class with n images and m wanted, each m / n times, and m % n of them, drawn by the
// seed, once more. Every sample has a label. A pure function of labels and seed.
std::vector<std::uint32_t> balanced_copies(const SampleTable& samples, std::uint64_t seed);

}  // namespace kiln
