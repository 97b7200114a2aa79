#include "data/split/split.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/text.h"

namespace kiln {
namespace {

// Images that go to one side, or into one part, as a whole.
struct ImageGroup {
  std::uint64_t key = std::numeric_limits<std::uint64_t>::max();  // the lowest key of its images
  std::vector<std::pair<std::size_t, long long>> shares;          // its classes and their images
  std::uint8_t part = 0;
};

// The groups, indexed by group number.
std::vector<ImageGroup> image_groups(const SplitImages& images) {
  std::vector<ImageGroup> groups;
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const std::uint32_t number = images.groups[i];
    if (number >= groups.size()) groups.resize(number + 1);
    groups[number].key = std::min(groups[number].key, images.keys[i]);
    auto& shares = groups[number].shares;
    images.classes.visit(images.labels[i], [&](int id) {
      const auto label = static_cast<std::size_t>(id);
      const auto share =
          std::ranges::find(shares, label, [](const auto& own) { return own.first; });
      if (share == shares.end())
        shares.emplace_back(label, 1);
      else
        ++share->second;
    });
  }
  return groups;
}

// The positions of the items in the order of a member.
template <typename Item, typename Member>
std::vector<std::size_t> order_by(Member Item::*member, const std::vector<Item>& items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t i) -> auto& { return items[i].*member; });
  return order;
}

// By how many images the group would move its classes' numbers away from the wanted ones; negative
// if it would move them closer.
long long added_distance(const ImageGroup& group, const std::vector<long long>& have,
                         const std::vector<long long>& wanted) {
  long long cost = 0;
  for (const auto& [label, count] : group.shares) {
    const long long off = have[label] - wanted[label];
    cost += std::llabs(off + count) - std::llabs(off);
  }
  return cost;
}

class Chooser {
 public:
  Chooser(const SplitImages& images, double fraction)
      : groups_(image_groups(images)),
        order_(order_by(&ImageGroup::key, groups_)),
        all_(images.num_classes),
        valid_(images.num_classes),
        wanted_(images.num_classes) {
    for (const std::int32_t label : images.labels)
      images.classes.visit(label, [&](int id) { ++all_[static_cast<std::size_t>(id)]; });
    for (std::size_t c = 0; c < all_.size(); ++c)
      if (all_[c] > 1) wanted_[c] = std::clamp(std::llround(fraction * all_[c]), 1LL, all_[c] - 1);
  }

  std::vector<Side> run(const std::vector<std::uint32_t>& groups) {
    for (const std::size_t i : order_)
      if (may_validate(groups_[i]) && cost_of(groups_[i]) < 0) add(groups_[i]);
    give_each_class_one();
    return list_from(groups, [&](std::uint32_t group) {
      return groups_[group].part == kValidates ? Side::kValid : Side::kTrain;
    });
  }

 private:
  static constexpr std::uint8_t kValidates = 1;

  // True if the group can still go to validation and leave every class an image for training.
  bool may_validate(const ImageGroup& group) const {
    return group.part != kValidates && std::ranges::all_of(group.shares, [&](const auto& share) {
             const auto& [label, count] = share;
             return valid_[label] + count < all_[label];
           });
  }

  long long cost_of(const ImageGroup& group) const {
    return added_distance(group, valid_, wanted_);
  }

  void add(ImageGroup& group) {
    group.part = kValidates;
    for (const auto& [label, count] : group.shares) valid_[label] += count;
  }

  // Classes of only large groups may have no validation images yet. Each gets the group that costs
  // least; of equal ones, the first by key.
  void give_each_class_one() {
    std::vector<std::vector<std::size_t>> candidates(all_.size());
    for (const std::size_t i : order_)
      for (const auto& [label, count] : groups_[i].shares)
        if (valid_[label] == 0) candidates[label].push_back(i);
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
        order_(order_by(&ImageGroup::key, groups_)),
        left_(images.num_classes) {
    for (const std::int32_t label : images.labels) ++left_[label];
  }

  std::vector<std::uint8_t> run(const std::vector<std::uint32_t>& groups) {
    if (order_.size() < wanted_.size()) throw InternalError("fewer groups than parts");
    for (std::size_t part = wanted_.size() - 1; part > 0; --part) fill(part);
    return list_from(groups, [&](std::uint32_t group) { return groups_[group].part; });
  }

 private:
  // Fills a part with groups. Groups that no part takes are in the first one.
  void fill(std::size_t part) {
    have_.assign(left_.size(), 0);
    const std::size_t before = order_.size();
    take_if(part, [&](const ImageGroup& group) { return cost_of(group, part) == -size_of(group); });
    take_if(part, [&](const ImageGroup& group) { return cost_of(group, part) < 0; });
    if (order_.size() < before) return;
    const auto cheapest = std::ranges::min_element(order_, [&](std::size_t a, std::size_t b) {
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
    return std::ranges::all_of(group.shares, [&](const auto& share) {
      const auto& [label, count] = share;
      if (left_[label] > count) return true;
      for (std::size_t earlier = 0; earlier < part; ++earlier)
        if (wanted_[earlier][label] > 0) return false;
      return true;
    });
  }

  static long long size_of(const ImageGroup& group) {
    long long size = 0;
    for (const auto& [label, count] : group.shares) size += count;
    return size;
  }

  long long cost_of(const ImageGroup& group, std::size_t part) const {
    return added_distance(group, have_, wanted_[part]);
  }

  void take(ImageGroup& group, std::size_t part) {
    group.part = static_cast<std::uint8_t>(part);
    for (const auto& [label, count] : group.shares) {
      have_[label] += count;
      left_[label] -= count;
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

namespace {

// Returns `count` of the `candidates`, drawn without replacement as NumPy's RandomState does, with
// which scikit-learn breaks ties between classes.
std::vector<std::size_t> choose(std::vector<std::size_t> candidates, std::size_t count,
                                std::mt19937& engine) {
  for (std::size_t i = candidates.size(); i > 1; --i) {
    // A number below `i` by rejection: takes as many bits as `i - 1` has.
    const std::uint32_t mask = std::bit_ceil(static_cast<std::uint32_t>(i)) - 1;
    std::uint32_t drawn = 0;
    do drawn = static_cast<std::uint32_t>(engine()) & mask;
    while (drawn >= i);
    std::swap(candidates[i - 1], candidates[drawn]);
  }
  candidates.resize(count);
  return candidates;
}

// Returns how many of `draws` images come from each class, in proportion to `counts`. The order of
// the floating-point operations is scikit-learn's, because remainders that are equal there must be
// equal here.
std::vector<long long> proportional(const std::vector<long long>& counts, long long draws,
                                    std::mt19937& engine) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0LL));
  std::vector<long long> shares(counts.size());
  std::vector<double> remainders(counts.size());
  long long lacking = draws;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const double exact = static_cast<double>(counts[c]) / all * static_cast<double>(draws);
    shares[c] = static_cast<long long>(std::floor(exact));
    remainders[c] = exact - std::floor(exact);
    lacking -= shares[c];
  }
  const std::set<double, std::greater<>> descending(remainders.begin(), remainders.end());
  for (const double remainder : descending) {
    if (lacking <= 0) break;
    std::vector<std::size_t> tied;
    for (std::size_t c = 0; c < counts.size(); ++c)
      if (remainders[c] == remainder) tied.push_back(c);
    const std::size_t count = std::min(tied.size(), static_cast<std::size_t>(lacking));
    for (const std::size_t c : choose(std::move(tied), count, engine)) ++shares[c];
    lacking -= static_cast<long long>(count);
  }
  return shares;
}

std::string why_not_by_class(const std::vector<ClassCounts>& classes,
                             const std::vector<long long>& sizes) {
  const auto num_parts = static_cast<long long>(sizes.size());
  for (const ClassCounts& of_class : classes)
    if (of_class.count < num_parts)
      return "class '" + of_class.name + "' has only " + plural(of_class.count, "image", "images");
  const long long smallest = *std::ranges::min_element(sizes);
  if (smallest < static_cast<long long>(classes.size()))
    return "the smallest part has " + plural(smallest, "image", "images") + ", fewer than the " +
           std::to_string(classes.size()) + " classes";
  return "";
}

}  // namespace

std::vector<long long> part_sizes(const std::vector<double>& fractions, long long n) {
  std::vector<long long> sizes;
  long long rest = n;
  for (std::size_t p = 0; p + 1 < fractions.size(); ++p) {
    const auto later = static_cast<long long>(fractions.size() - p - 1);
    const auto size = static_cast<long long>(std::floor(fractions[p] * static_cast<double>(n)));
    sizes.push_back(std::clamp(size, 1LL, rest - later));
    rest -= sizes.back();
  }
  sizes.push_back(rest);
  return sizes;
}

PartCounts share_out(const std::vector<ClassCounts>& classes, const std::vector<long long>& sizes) {
  PartCounts counts;
  counts.why_not = why_not_by_class(classes, sizes);
  if (!counts.why_not.empty()) return counts;
  // The order in which ties are drawn.
  const std::vector<std::size_t> by_name = order_by(&ClassCounts::name, classes);
  std::vector<long long> left = list_from(by_name, [&](std::size_t c) { return classes[c].count; });
  std::mt19937 engine(42);  // random_state
  for (const long long size : sizes) {
    const std::vector<long long> shares = proportional(left, size, engine);
    std::vector<long long>& wanted = counts.wanted.emplace_back(classes.size());
    for (std::size_t k = 0; k < by_name.size(); ++k) {
      wanted[by_name[k]] = shares[k];
      left[k] -= shares[k];
    }
  }
  return counts;
}

namespace {

constexpr const char* kNoLabel = "(no label)";

// The classes that have images, and each image's label as an index into them. Images without a
// label form a class of their own, the last one.
struct PresentClasses {
  std::vector<ClassCounts> classes;
  std::vector<std::int32_t> labels;
};

PresentClasses present_classes(const Dataset& set) {
  const std::size_t num_classes = set.classes.size();
  std::vector<long long> counts(num_classes + 1);
  const auto class_of = [&](std::size_t i) {
    const int label = set.samples.label(i);
    return label < 0 ? num_classes : static_cast<std::size_t>(label);
  };
  for (std::size_t i = 0; i < set.samples.size(); ++i) ++counts[class_of(i)];
  PresentClasses present;
  std::vector<std::int32_t> index(counts.size());
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    index[c] = static_cast<std::int32_t>(present.classes.size());
    present.classes.push_back({c == num_classes ? kNoLabel : set.classes[c], counts[c]});
  }
  for (std::size_t i = 0; i < set.samples.size(); ++i) present.labels.push_back(index[class_of(i)]);
  return present;
}

// Returns how many images of each class are wanted in each part, and fills in the classes of
// `images`. If the split cannot or should not be by class, all images are of one class.
std::vector<std::vector<long long>> wanted_counts(const PartsRequest& request,
                                                  PresentClasses present, SplitImages& images,
                                                  std::vector<std::string>& notes) {
  const auto n = static_cast<long long>(present.labels.size());
  const std::vector<long long> sizes = part_sizes(request.fractions, n);
  if (request.by_class) {
    PartCounts counts = share_out(present.classes, sizes);
    if (counts.why_not.empty()) {
      images.labels = std::move(present.labels);
      images.num_classes = present.classes.size();
      return std::move(counts.wanted);
    }
    notes.push_back("the split is random over all images and not by class, since " +
                    counts.why_not);
  }
  images.labels.assign(present.labels.size(), 0);
  images.num_classes = 1;
  return list_from(sizes, [](long long size) { return std::vector{size}; });
}

void refuse_few_groups(const PartedDataset& split, const std::vector<std::uint32_t>& groups,
                       const PartsRequest& request) {
  const std::size_t num_groups = std::size_t{*std::ranges::max_element(groups)} + 1;
  if (num_groups >= request.names.size()) return;
  split.set.fail(
      "its " + plural(std::ssize(groups), "image", "images") + " form " +
      plural(static_cast<long long>(num_groups), "group", "groups") +
      (request.group_by.empty() ? " of duplicates" : ", by --group-by '" + request.group_by + "'") +
      ", too few for " + std::to_string(request.names.size()) + " parts. Add images.");
}

// Adds a note for each part that lacks images of some class.
void add_missing_classes(const PresentClasses& present, const PartsRequest& request,
                         PartedDataset& split) {
  for (std::size_t p = 0; p < request.names.size(); ++p) {
    std::vector<bool> is_there(present.classes.size());
    for (std::size_t i = 0; i < split.parts.size(); ++i)
      if (split.parts[i] == p) is_there[present.labels[i]] = true;
    std::vector<std::string> missing;
    for (std::size_t c = 0; c < is_there.size(); ++c)
      if (!is_there[c]) missing.push_back(present.classes[c].name);
    if (!missing.empty())
      split.set.notes.push_back("the output '" + request.names[p] + "' has no image of " +
                                quoted_names(missing, kMaxNamedOfSplit));
  }
}

std::string summary_of(const PartedDataset& split, const PartsRequest& request,
                       std::size_t num_classes, bool is_by_class) {
  std::string text;
  for (std::size_t p = 0; p < request.names.size(); ++p) {
    const auto size = std::ranges::count(split.parts, p);
    text += (p == 0 ? "" : ", ") + grouped(size) + " " + request.names[p];
  }
  text += " images";
  if (!split.set.labeled()) return text;
  text += " of " + plural(static_cast<long long>(num_classes), "class", "classes");
  if (num_classes > 1) text += is_by_class ? ", stratified by class" : ", split at random";
  return text;
}

}  // namespace

void check_parts(const PartsRequest& request, Dataset& set) {
  Problems problems;
  const std::size_t n = set.samples.size();
  if (n < std::max<std::size_t>(request.names.size(), 2)) {
    problems.collect([&] {
      set.fail("it has " + plural(std::ssize(set.samples), "image", "images") + ", too few for " +
               std::to_string(request.names.size()) + " parts. Add images.");
    });
  } else {
    const double least = 1.0 / static_cast<double>(n);
    std::vector<double> checked = request.fractions;
    if (checked.size() == 2) checked.pop_back();  // implied by the first; 1 - 0.9 is less than 0.1
    for (const double fraction : checked)
      if (fraction < least || fraction > 1 - least)
        problems.add(
            Error(ErrorCode::kNotInRangeValue,
                  formatted("The fraction %g of %zu images leaves an output empty: it must be "
                            "between %.6g and %.6g, so that each output has at least one image.",
                            fraction, n, least, 1 - least)));
  }
  problems.collect([&] { check_pattern(request.group_by, set); });
  problems.throw_if_any();
}

PartedDataset split_into_parts(Dataset given, const PartsRequest& request, const ScanPlan& scan) {
  PartedDataset split;
  split.set = std::move(given);
  const ScannedImages scanned = scan_images({&split.set}, scan);
  const DuplicatePairs pairs = find_duplicates(scanned);
  const PresentClasses present = present_classes(split.set);
  SplitImages images;
  images.keys = split_keys(split.set, scanned, request.seed);
  images.groups = groups_of(split.set, request.keep_duplicates_together ? pairs : DuplicatePairs{},
                            request.group_by);
  refuse_few_groups(split, images.groups, request);
  const auto wanted = wanted_counts(request, present, images, split.set.notes);
  split.set.add_note(note_of_contradictions(split.set, scanned.hashes));
  split.parts = choose_parts(images, wanted);
  split.leaks = find_leaks(pairs, split.parts);
  add_missing_classes(present, request, split);
  split.summary = summary_of(split, request, present.classes.size(),
                             images.num_classes == present.classes.size());
  return split;
}

}  // namespace kiln
