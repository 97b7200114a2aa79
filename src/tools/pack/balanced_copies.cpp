#include "tools/pack/balanced_copies.h"

#include <algorithm>

#include "base/random.h"

namespace kiln {

std::vector<std::uint32_t> balanced_copies(const SampleTable& samples, std::uint64_t seed) {
  std::vector<std::vector<std::uint32_t>> classes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto label = static_cast<std::size_t>(samples.label(i));
    if (label >= classes.size()) classes.resize(label + 1);
    classes[label].push_back(static_cast<std::uint32_t>(i));
  }
  std::size_t most = 0;
  for (const auto& images : classes) most = std::max(most, images.size());
  std::vector<std::uint32_t> copies(samples.size());
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const auto count = static_cast<std::uint32_t>(classes[label].size());
    if (count == 0) continue;
    const std::vector<std::uint32_t> drawn = permutation(count, {seed, label, count});
    for (std::uint32_t k = 0; k < count; ++k)
      copies[classes[label][drawn[k]]] =
          static_cast<std::uint32_t>(most / count + (k < most % count ? 1 : 0));
  }
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < copies.size(); ++i)
    order.insert(order.end(), copies[i], static_cast<std::uint32_t>(i));
  return order;
}

}  // namespace kiln
