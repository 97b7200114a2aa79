#include "data/split/split.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"

namespace kiln {
namespace {

struct ClassShare {
  std::size_t label = 0;
  long long count = 0;
};

// Images that go to one side, or into one part, as a whole.
struct ImageGroup {
  std::uint64_t key = std::numeric_limits<std::uint64_t>::max();  // the lowest key of its images
  std::vector<ClassShare> shares;                                 // classes of its images
  std::uint8_t part = 0;
};

void count_image(std::size_t label, std::vector<ClassShare>& shares) {
  for (ClassShare& share : shares)
    if (share.label == label) return void(++share.count);
  shares.push_back({label, 1});
}

// The groups, indexed by group number.
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

// The group numbers, in the order of the groups' keys.
std::vector<std::size_t> by_key(const std::vector<ImageGroup>& groups) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return groups[a].key < groups[b].key; });
  return order;
}

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
  const bool by_bytes = set.samples.size() <= kMaxDecodedImages;
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

namespace {

class PartChooser {
 public:
  PartChooser(const SplitImages& images, const std::vector<std::vector<long long>>& wanted)
      : wanted_(wanted),
        groups_(image_groups(images)),
        order_(by_key(groups_)),
        left_(images.num_classes) {
    for (const std::int32_t label : images.labels) ++left_[static_cast<std::size_t>(label)];
  }

  std::vector<std::uint8_t> run(const std::vector<std::uint32_t>& groups) {
    if (order_.size() < wanted_.size()) throw InternalError("fewer groups than parts");
    for (std::size_t part = wanted_.size() - 1; part > 0; --part) fill(part);
    std::vector<std::uint8_t> parts;
    parts.reserve(groups.size());
    for (const std::uint32_t group : groups) parts.push_back(groups_[group].part);
    return parts;
  }

 private:
  // Fills a part with groups. Groups that no part takes are in the first one.
  void fill(std::size_t part) {
    have_.assign(left_.size(), 0);
    const std::size_t before = order_.size();
    take_if(part, [&](const ImageGroup& group) { return cost_of(group, part) == -size_of(group); });
    take_if(part, [&](const ImageGroup& group) { return cost_of(group, part) < 0; });
    if (order_.size() < before) return;
    const auto cheapest =
        std::min_element(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
          return cost_of(groups_[a], part) < cost_of(groups_[b], part);
        });
    take(groups_[*cheapest], part);
    order_.erase(cheapest);
  }

  template <typename Wants>
  void take_if(std::size_t part, Wants&& wants) {
    std::vector<std::size_t> kept;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      ImageGroup& group = groups_[order_[k]];
      const std::size_t num_others = kept.size() + (order_.size() - k - 1);
      if (num_others >= part && leaves_enough(group, part) && wants(group))
        take(group, part);
      else
        kept.push_back(order_[k]);
    }
    order_ = std::move(kept);
  }

  // True if taking the group leaves images of each of its classes for the earlier parts, if they
  // want any.
  bool leaves_enough(const ImageGroup& group, std::size_t part) const {
    return std::all_of(group.shares.begin(), group.shares.end(), [&](const ClassShare& share) {
      if (left_[share.label] > share.count) return true;
      for (std::size_t earlier = 0; earlier < part; ++earlier)
        if (wanted_[earlier][share.label] > 0) return false;
      return true;
    });
  }

  static long long size_of(const ImageGroup& group) {
    long long size = 0;
    for (const ClassShare& share : group.shares) size += share.count;
    return size;
  }

  // Returns by how many images the group would move the part away from the wanted numbers; negative
  // if it would move it closer.
  long long cost_of(const ImageGroup& group, std::size_t part) const {
    long long cost = 0;
    for (const ClassShare& share : group.shares) {
      const long long off = have_[share.label] - wanted_[part][share.label];
      cost += std::llabs(off + share.count) - std::llabs(off);
    }
    return cost;
  }

  void take(ImageGroup& group, std::size_t part) {
    group.part = static_cast<std::uint8_t>(part);
    for (const ClassShare& share : group.shares) {
      have_[share.label] += share.count;
      left_[share.label] -= share.count;
    }
  }

  const std::vector<std::vector<long long>>& wanted_;
  std::vector<ImageGroup> groups_;
  std::vector<std::size_t> order_;  // groups that no part has taken, sorted by key
  std::vector<long long> left_;     // images in them, by class
  std::vector<long long> have_;     // images in the part being filled, by class
};

}  // namespace

std::vector<std::uint8_t> choose_parts(const SplitImages& images,
                                       const std::vector<std::vector<long long>>& wanted) {
  return PartChooser(images, wanted).run(images.groups);
}

}  // namespace kiln
