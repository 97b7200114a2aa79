#include "data/split/split.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/files.h"
#include "base/random.h"

namespace kiln {
namespace {

struct ClassShare {
  std::int32_t label = 0;
  long long count = 0;
};

struct Group {
  std::uint64_t key = std::numeric_limits<std::uint64_t>::max();
  std::vector<ClassShare> shares;  // of its images
  bool validates = false;
};

void count_image(std::int32_t label, std::vector<ClassShare>& shares) {
  for (ClassShare& share : shares)
    if (share.label == label) return void(++share.count);
  shares.push_back({label, 1});
}

class Chooser {
 public:
  Chooser(const SplitImages& images, double fraction)
      : all_(images.num_classes), valid_(images.num_classes), wanted_(images.num_classes) {
    for (std::size_t i = 0; i < images.labels.size(); ++i) {
      const std::uint32_t number = images.groups[i];
      if (number >= groups_.size()) groups_.resize(number + 1);
      groups_[number].key = std::min(groups_[number].key, images.keys[i]);
      count_image(images.labels[i], groups_[number].shares);
      ++all_[static_cast<std::size_t>(images.labels[i])];
    }
    for (std::size_t c = 0; c < all_.size(); ++c)
      if (all_[c] > 1)
        wanted_[c] =
            std::clamp(std::llround(fraction * static_cast<double>(all_[c])), 1LL, all_[c] - 1);
    order_.resize(groups_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return groups_[a].key < groups_[b].key; });
  }

  std::vector<Side> run(const std::vector<std::uint32_t>& groups) {
    for (const std::size_t i : order_)
      if (may_validate(groups_[i]) && cost_of(groups_[i]) < 0) add(groups_[i]);
    give_each_class_one();
    std::vector<Side> sides;
    sides.reserve(groups.size());
    for (const std::uint32_t group : groups)
      sides.push_back(groups_[group].validates ? Side::kValid : Side::kTrain);
    return sides;
  }

 private:
  std::size_t of(const ClassShare& share) const { return static_cast<std::size_t>(share.label); }

  // Leaves every class something to learn from.
  bool may_validate(const Group& group) const {
    return !group.validates &&
           std::all_of(group.shares.begin(), group.shares.end(), [&](const ClassShare& share) {
             return valid_[of(share)] + share.count < all_[of(share)];
           });
  }

  // By how many images its classes would be further from what is wanted.
  long long cost_of(const Group& group) const {
    long long cost = 0;
    for (const ClassShare& share : group.shares) {
      const long long off = valid_[of(share)] - wanted_[of(share)];
      cost += std::llabs(off + share.count) - std::llabs(off);
    }
    return cost;
  }

  void add(Group& group) {
    group.validates = true;
    for (const ClassShare& share : group.shares) valid_[of(share)] += share.count;
  }

  // Classes of large groups alone: the one that costs least, of equal ones the first by key.
  void give_each_class_one() {
    std::vector<std::vector<std::size_t>> candidates(all_.size());
    for (const std::size_t i : order_)
      for (const ClassShare& share : groups_[i].shares)
        if (valid_[of(share)] == 0) candidates[of(share)].push_back(i);
    for (std::size_t c = 0; c < all_.size(); ++c) {
      if (valid_[c] > 0) continue;
      Group* best = nullptr;
      for (const std::size_t i : candidates[c])
        if (may_validate(groups_[i]) && (best == nullptr || cost_of(groups_[i]) < cost_of(*best)))
          best = &groups_[i];
      if (best != nullptr) add(*best);
    }
  }

  std::vector<Group> groups_;
  std::vector<std::size_t> order_;               // of groups, by key
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
