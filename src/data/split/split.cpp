#include "data/split/split.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/files.h"
#include "base/random.h"
#include "data/split/image_groups.h"

namespace kiln {
namespace {

class Chooser {
 public:
  Chooser(const SplitImages& images, double fraction)
      : groups_(image_groups(images)),
        order_(by_key(groups_)),
        all_(images.num_classes),
        valid_(images.num_classes),
        wanted_(images.num_classes) {
    for (const std::int32_t label : images.labels) ++all_[static_cast<std::size_t>(label)];
    for (std::size_t c = 0; c < all_.size(); ++c)
      if (all_[c] > 1)
        wanted_[c] =
            std::clamp(std::llround(fraction * static_cast<double>(all_[c])), 1LL, all_[c] - 1);
  }

  std::vector<Side> run(const std::vector<std::uint32_t>& groups) {
    for (const std::size_t i : order_)
      if (may_validate(groups_[i]) && cost_of(groups_[i]) < 0) add(groups_[i]);
    give_each_class_one();
    std::vector<Side> sides;
    sides.reserve(groups.size());
    for (const std::uint32_t group : groups)
      sides.push_back(groups_[group].part == kValidates ? Side::kValid : Side::kTrain);
    return sides;
  }

 private:
  static constexpr std::uint8_t kValidates = 1;

  // True if the group can still go to validation and leave every class an image for training.
  bool may_validate(const ImageGroup& group) const {
    return group.part != kValidates &&
           std::all_of(group.shares.begin(), group.shares.end(), [&](const ClassShare& share) {
             return valid_[share.label] + share.count < all_[share.label];
           });
  }

  // Returns by how many images the group would move its classes away from the wanted numbers;
  // negative if it would move them closer.
  long long cost_of(const ImageGroup& group) const {
    long long cost = 0;
    for (const ClassShare& share : group.shares) {
      const long long off = valid_[share.label] - wanted_[share.label];
      cost += std::llabs(off + share.count) - std::llabs(off);
    }
    return cost;
  }

  void add(ImageGroup& group) {
    group.part = kValidates;
    for (const ClassShare& share : group.shares) valid_[share.label] += share.count;
  }

  // Classes of only large groups may have no validation images yet. Each gets the group that costs
  // least; of equal ones, the first by key.
  void give_each_class_one() {
    std::vector<std::vector<std::size_t>> candidates(all_.size());
    for (const std::size_t i : order_)
      for (const ClassShare& share : groups_[i].shares)
        if (valid_[share.label] == 0) candidates[share.label].push_back(i);
    for (std::size_t c = 0; c < all_.size(); ++c) {
      if (valid_[c] > 0) continue;
      ImageGroup* best = nullptr;
      for (const std::size_t i : candidates[c])
        if (may_validate(groups_[i]) && (best == nullptr || cost_of(groups_[i]) < cost_of(*best)))
          best = &groups_[i];
      if (best != nullptr) add(*best);
    }
  }

  std::vector<ImageGroup> groups_;
  std::vector<std::size_t> order_;               // indices of groups, sorted by key
  std::vector<long long> all_, valid_, wanted_;  // images by class
};

}  // namespace

std::vector<std::uint64_t> split_keys(const Dataset& set, const ScannedImages& scanned,
                                      std::uint64_t seed) {
  const bool by_bytes = set.samples.size() <= kMostDecodedImages;
  std::vector<std::uint64_t> keys(set.samples.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t hash = by_bytes ? scanned.hashes[i] : 0;
    keys[i] = RandomSequence{seed, hash != 0 ? hash : fnv1a(set.samples.file_name(i))}.next();
  }
  return keys;
}

std::vector<Side> choose_sides(const SplitImages& images, double fraction) {
  return Chooser(images, fraction).run(images.groups);
}

}  // namespace kiln
