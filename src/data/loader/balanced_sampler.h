// The images of an epoch that has equally many of every class: a pure function of the labels, the
// seed and the epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

struct SampledOrder {
  std::vector<std::uint32_t> order;    // indices into the samples
  std::vector<std::uint32_t> repeats;  // of each, how often the epoch has had the image before
};

// `count` images in random order. Over all epochs of `count` images, the draws of any two classes
// differ by at most 1. The images of a class are dealt out in shuffled passes that continue from
// epoch to epoch: none comes a second time before all others of its class have come. Classes
// without images and labels below 0 are left out. `epoch` is from 1.
SampledOrder balanced_order(std::span<const std::int32_t> labels, std::size_t count,
                            std::uint64_t seed, std::uint64_t epoch);

}  // namespace kiln
