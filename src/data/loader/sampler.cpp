#include "data/loader/sampler.h"

#include "base/random.h"

namespace kiln {
namespace {

using Images = std::vector<std::uint32_t>;

// Returns the images of each class that has any, in label order.
std::vector<Images> images_by_class(std::span<const std::int32_t> labels) {
  std::vector<Images> classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    if (label >= classes.size()) classes.resize(label + 1);
    classes[label].push_back(static_cast<std::uint32_t>(i));
  }
  std::erase_if(classes, [](const Images& images) { return images.empty(); });
  return classes;
}

// Returns how many of the first `draws` draws are from class number `which` if classes take turns.
std::uint64_t draws_of_class(std::uint64_t draws, std::size_t which, std::size_t num_classes) {
  return (draws + num_classes - 1 - which) / num_classes;
}

}  // namespace

SampledOrder balanced_order(std::span<const std::int32_t> labels, std::size_t count,
                            std::uint64_t seed, std::uint64_t epoch) {
  const std::vector<Images> classes = images_by_class(labels);
  const std::uint64_t before = (epoch - 1) * count;
  Images drawn;
  drawn.reserve(count);
  for (std::size_t which = 0; which < classes.size(); ++which) {
    // The draws of a class go through its images in shuffled passes.
    const Images& images = classes[which];
    const std::uint64_t end = draws_of_class(before + count, which, classes.size());
    Images pass;
    for (std::uint64_t draw = draws_of_class(before, which, classes.size()); draw < end; ++draw) {
      const std::uint64_t place = draw % images.size();
      if (pass.empty() || place == 0)
        pass = permutation(images.size(), {seed, draw / images.size(), which, images.size()});
      drawn.push_back(images[pass[place]]);
    }
  }
  SampledOrder result;
  result.order.reserve(drawn.size());
  result.repeats.reserve(drawn.size());
  Images seen(labels.size());
  for (const std::uint32_t place : permutation(drawn.size(), {seed, epoch})) {
    result.order.push_back(drawn[place]);
    result.repeats.push_back(seen[drawn[place]]++);
  }
  return result;
}

}  // namespace kiln
