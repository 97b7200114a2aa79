// Chooses the images of an epoch with equally many of every class: a pure function of labels, seed
// and epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

struct SampledOrder {
  std::vector<std::uint32_t> order;    // indices into the samples
  std::vector<std::uint32_t> repeats;  // how often each one came earlier in the epoch
};

// `count` images in random order. Over all epochs of `count` images, the numbers of draws of any
// two classes differ by at most 1. Each class is drawn in shuffled passes that continue from epoch
// to epoch: no image is repeated before all others of its class have been drawn. Classes without
// images and labels below 0 are left out. `epoch` counts from 1.
SampledOrder balanced_order(std::span<const std::int32_t> labels, std::size_t count,
                            std::uint64_t seed, std::uint64_t epoch);

}  // namespace kiln
