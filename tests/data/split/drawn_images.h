// Images for tests of splits, drawn without files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "data/split/split.h"

namespace kiln {

struct DrawnImages {
  SplitImages images;

  // `count` images of a class, each a group of its own.
  void add(std::int32_t label, int count) {
    for (int i = 0; i < count; ++i) add_group({label});
  }
  // One group, with an image of each label.
  void add_group(const std::vector<std::int32_t>& labels) {
    for (const std::int32_t label : labels) {
      images.labels.push_back(label);
      images.keys.push_back(splitmix64(images.keys.size()));
      images.groups.push_back(num_groups);
      images.num_classes = std::max(images.num_classes, static_cast<std::size_t>(label) + 1);
    }
    ++num_groups;
  }

  std::uint32_t num_groups = 0;
};

}  // namespace kiln
