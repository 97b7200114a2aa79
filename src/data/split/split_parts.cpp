#include "data/split/split_parts.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "data/split/image_groups.h"

namespace kiln {
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
