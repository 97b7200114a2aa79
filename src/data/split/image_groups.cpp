#include "data/split/image_groups.h"

#include <algorithm>
#include <numeric>

namespace kiln {
namespace {

void count_image(std::size_t label, std::vector<ClassShare>& shares) {
  for (ClassShare& share : shares)
    if (share.label == label) return void(++share.count);
  shares.push_back({label, 1});
}

}  // namespace

std::vector<ImageGroup> image_groups(const SplitImages& images) {
  std::vector<ImageGroup> groups;
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const std::uint32_t number = images.groups[i];
    if (number >= groups.size()) groups.resize(number + 1);
    groups[number].key = std::min(groups[number].key, images.keys[i]);
    count_image(static_cast<std::size_t>(images.labels[i]), groups[number].shares);
  }
  return groups;
}

std::vector<std::size_t> by_key(const std::vector<ImageGroup>& groups) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return groups[a].key < groups[b].key; });
  return order;
}

}  // namespace kiln
