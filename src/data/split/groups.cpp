#include "data/split/groups.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/path_pattern.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/split/near_duplicates.h"

namespace kiln {
namespace {

constexpr int kLeastSide = 128;
constexpr std::size_t kBeginning = 16 << 10;
constexpr std::size_t kPortion = 16;  // images that a thread takes at a time

// The images of several datasets, numbered continuously, one dataset after the other.
class ImagesInOrder {
 public:
  struct Place {
    Dataset* set;
    std::size_t i;
  };

  explicit ImagesInOrder(std::vector<Dataset*> sets) : sets_(std::move(sets)) {
    for (const Dataset* set : sets_) size_ += set->samples.size();
  }

  const std::vector<Dataset*>& sets() const { return sets_; }
  std::size_t size() const { return size_; }

  Place at(std::size_t i) const {
    std::size_t s = 0;
    for (; i >= sets_[s]->samples.size(); ++s) i -= sets_[s]->samples.size();
    return {sets_[s], i};
  }

 private:
  std::vector<Dataset*> sets_;
  std::size_t size_ = 0;
};

class Progress {
 public:
  Progress(const ScanPlan& plan, std::size_t all) : plan_(plan), all_(all) {}

  void add(std::size_t count) {
    if (!plan_.progress) return;
    const std::scoped_lock lock(mutex_);
    plan_.progress(done_ += count, all_);
  }

 private:
  const ScanPlan& plan_;
  std::size_t all_, done_ = 0;
  std::mutex mutex_;
};

// Calls work(k) for every k below `count`. `make` returns the work; a thread calls it for several k
// in a row, so that the memory it owns is reused.
template <typename Make>
void for_each_image(std::size_t count, const ScanPlan& plan, Progress& progress, Make&& make) {
  in_parallel((count + kPortion - 1) / kPortion, plan.num_threads, [&](std::size_t portion) {
    auto work = make();
    const std::size_t begin = portion * kPortion, end = std::min(count, begin + kPortion);
    for (std::size_t i = begin; i < end; ++i) work(i);
    progress.add(end - begin);
  });
}

// Reads the first `limit` bytes of an image. False if it cannot be read.
bool read(const ImagesInOrder::Place& place, std::size_t limit, std::string& bytes) {
  try {
    read_first_bytes(*place.set, place.i, limit, bytes);
    return true;
  } catch (const ImageFault&) {
    return false;
  }
}

double usual_shrink(ImageSize whole) {
  const int side = std::min(whole.height, whole.width);
  return std::max(1.0, static_cast<double>(side) / kLeastSide);
}

// Decodes an image into `image`, at a resolution reduced as the plan says. Reuses the memory of
// `part` and `image`.
void decode_small(const std::string& bytes, Exif exif, const ScanPlan& plan, ImagePart& part,
                  Image& image) {
  part.pixels.swap(image.pixels);
  const auto whole_image = [&plan](ImageSize whole) {
    return WantedPart{{0, 0, whole}, plan.shrink ? plan.shrink(whole) : usual_shrink(whole)};
  };
  decode_part(bytes, exif, whole_image, part);
  image.size = part.region.size;
  image.pixels.swap(part.pixels);
  image.pixels.resize(static_cast<std::size_t>(image.size.height) *
                      static_cast<std::size_t>(image.size.width) * 3);
}

void scan_whole_images(const ImagesInOrder& images, const ScanPlan& plan, ScannedImages& found) {
  for (Dataset* set : images.sets()) set->samples.keep_hashes();
  found.looks.resize(images.size());
  Progress progress(plan, images.size());
  for_each_image(images.size(), plan, progress, [&] {
    return [&, bytes = std::string(), part = ImagePart(), image = Image()](std::size_t i) mutable {
      const ImagesInOrder::Place place = images.at(i);
      if (!read(place, SIZE_MAX, bytes)) return;
      found.hashes[i] = content_hash(bytes);
      try {
        decode_small(bytes, place.set->exif, plan, part, image);
      } catch (const ImageFault&) {
        return;
      }
      found.looks[i] = look_of(image);
      if (plan.visit) plan.visit(i, image, part.whole);
      place.set->samples.note_hash(place.i, found.hashes[i]);
    };
  });
}

// Returns the images whose beginning has the same hash as that of another image.
std::vector<std::uint32_t> with_equal_beginnings(const std::vector<std::uint64_t>& hashes) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order;
  for (std::uint32_t i = 0; i < hashes.size(); ++i)
    if (hashes[i] != 0) order.emplace_back(hashes[i], i);
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> images;
  for (std::size_t k = 0; k < order.size(); ++k)
    if ((k > 0 && order[k - 1].first == order[k].first) ||
        (k + 1 < order.size() && order[k + 1].first == order[k].first))
      images.push_back(order[k].second);
  return images;
}

void scan_beginnings(const ImagesInOrder& images, const ScanPlan& plan, ScannedImages& found) {
  std::vector<std::uint64_t> beginnings(images.size());
  Progress progress(plan, images.size());
  const auto hash_into = [&](std::vector<std::uint64_t>& hashes, std::size_t i, std::size_t limit,
                             std::string& bytes) {
    if (read(images.at(i), limit, bytes)) hashes[i] = content_hash(bytes);
  };
  for_each_image(images.size(), plan, progress, [&] {
    return [&, bytes = std::string()](std::size_t i) mutable {
      hash_into(beginnings, i, kBeginning, bytes);
    };
  });
  const std::vector<std::uint32_t> alike = with_equal_beginnings(beginnings);
  Progress again(plan, alike.size());
  for_each_image(alike.size(), plan, again, [&] {
    return [&, bytes = std::string()](std::size_t k) mutable {
      hash_into(found.hashes, alike[k], SIZE_MAX, bytes);
    };
  });
}

ScannedImages scan(const ImagesInOrder& images, const ScanPlan& plan) {
  ScannedImages found;
  found.hashes.resize(images.size());
  if (plan.decode_all || images.size() <= kMaxDecodedImages)
    scan_whole_images(images, plan, found);
  else
    scan_beginnings(images, plan, found);
  return found;
}

}  // namespace

ScannedImages scan_images(Dataset& set, const ScanPlan& plan) {
  return scan(ImagesInOrder({&set}), plan);
}

ScannedImages scan_images(Dataset& first, Dataset& second, const ScanPlan& plan) {
  return scan(ImagesInOrder({&first, &second}), plan);
}

DuplicatePairs find_duplicates(const ScannedImages& scanned) {
  DuplicatePairs pairs;
  std::unordered_map<std::uint64_t, std::uint32_t> first_of;
  std::vector<LookPrint> looks = scanned.looks;
  for (std::uint32_t i = 0; i < scanned.hashes.size(); ++i) {
    if (scanned.hashes[i] == 0) continue;
    const auto [first, is_new] = first_of.emplace(scanned.hashes[i], i);
    if (is_new) continue;
    pairs.exact.emplace_back(first->second, i);
    if (!looks.empty()) looks[i] = {};
  }
  pairs.near = near_duplicates(looks);
  return pairs;
}

std::vector<std::uint32_t> groups_of(const Dataset& set, const DuplicatePairs& pairs,
                                     const std::string& group_by) {
  const auto count = static_cast<std::uint32_t>(set.samples.size());
  UnionFind united(count);
  for (const auto* list : {&pairs.exact, &pairs.near})
    for (const auto& [a, b] : *list) united.unite(a, b);
  if (!group_by.empty()) {
    const PathPattern pattern(group_by);
    std::unordered_map<std::string, std::uint32_t> first_of;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string group = pattern.group_of(set.samples.file_name(i));
      if (!group.empty()) united.unite(first_of.emplace(group, i).first->second, i);
    }
  }
  std::vector<std::uint32_t> groups(count);
  std::uint32_t num_groups = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t root = united.root_of(i);  // the lowest image of its group
    groups[i] = root == i ? num_groups++ : groups[root];
  }
  return groups;
}

void refuse_idle_pattern(const Dataset& set, const std::string& group_by) {
  if (group_by.empty()) return;
  const PathPattern pattern(group_by);
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    if (!pattern.group_of(set.samples.file_name(i)).empty()) return;
  throw Error(ErrorCode::kUserError, "--group-by '" + group_by + "' matches no path in '" +
                                         set.root.string() + "': the first is '" +
                                         printable(set.samples.file_name(0)) +
                                         "'. Give a regular expression that matches such paths.");
}

std::vector<Leak> find_leaks(const DuplicatePairs& pairs, const std::vector<std::uint8_t>& parts) {
  UnionFind united(parts.size());
  for (const auto* list : {&pairs.exact, &pairs.near})
    for (const auto& [a, b] : *list) united.unite(a, b);
  std::map<std::uint32_t, Leak> copies;  // by the lowest image of each group
  for (const auto* list : {&pairs.exact, &pairs.near})
    for (const auto& [a, b] : *list)
      for (const std::uint32_t i : {a, b}) copies[united.root_of(i)].images.push_back(i);
  // Images with the same bytes are all paired with the first of them, so if any two of them are in
  // different parts, then so is one of these pairs.
  for (const auto& [a, b] : pairs.exact)
    if (parts[a] != parts[b]) copies[united.root_of(a)].same_bytes = true;
  std::vector<Leak> leaks;
  for (auto& [root, leak] : copies) {
    std::vector<std::uint32_t>& images = leak.images;
    std::sort(images.begin(), images.end());
    images.erase(std::unique(images.begin(), images.end()), images.end());
    if (std::any_of(images.begin(), images.end(),
                    [&](std::uint32_t i) { return parts[i] != parts[images.front()]; }))
      leaks.push_back(std::move(leak));
  }
  return leaks;
}

std::vector<Leak> leaks_between(Dataset& train, Dataset& valid, const ScanPlan& scan) {
  const ScannedImages scanned = scan_images(train, valid, scan);
  std::vector<std::uint8_t> parts(train.samples.size(), 0);
  parts.resize(scanned.hashes.size(), 1);
  return find_leaks(find_duplicates(scanned), parts);
}

}  // namespace kiln
