#include "run/inputs/image_sizes.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"

namespace kiln {
namespace {

constexpr std::size_t kPrefixBytes = 64 * 1024;
constexpr std::size_t kPortion = 64;   // images that a thread takes at a time
constexpr std::size_t kLookedAt = 64;  // images whose listed sizes are compared

// Calls `work` with the position of each of `count` images and a buffer of its thread.
template <typename Work>
void for_images(std::size_t count, Work&& work) {
  in_parallel((count + kPortion - 1) / kPortion, kScanThreads, [&](std::size_t portion) {
    std::string buffer;
    for (std::size_t i = portion * kPortion; i < std::min(count, (portion + 1) * kPortion); ++i)
      work(i, buffer);
  });
}

// What `look` finds in the first bytes of image `i`, or in all of them; empty if that fails. Most
// headers are in the first 64 KiB; after a large embedded profile the whole file is needed.
template <typename Look>
auto seen_in(const Dataset& set, std::size_t i, std::string& buffer, Look&& look) {
  decltype(look(buffer)) found;
  for (const std::size_t limit : {kPrefixBytes, SIZE_MAX}) {
    try {
      read_first_bytes(set, i, limit, buffer);
      found = look(buffer);
    } catch (const ImageFault&) {
    }
    if (found || buffer.size() < limit) break;
  }
  return found;
}

std::optional<ImageSize> size_of(const Dataset& set, std::size_t i, std::string& buffer) {
  return seen_in(set, i, buffer, [&](std::string_view bytes) {
    return std::optional(read_image_size(bytes, set.exif));
  });
}

void forget_sizes(Dataset& set) {
  for (std::size_t i = 0; i < set.samples.size(); ++i) set.samples.set_size(i, {});
}

// Discards the listed sizes if they are wrong for one of a few images all over the list, according
// to its header: a list may claim any size, and the size of the network's input would follow it.
void forget_wrong_sizes(Dataset& set) {
  const std::size_t count = std::min(kLookedAt, set.samples.size());
  const auto place = [&](std::size_t k) { return k * set.samples.size() / count; };
  std::vector<std::optional<ImageSize>> found(count);
  in_parallel(count, kScanThreads, [&](std::size_t k) {
    std::string buffer;
    if (set.samples[place(k)].size) found[k] = size_of(set, place(k), buffer);
  });
  for (std::size_t k = 0; k < count; ++k) {
    const std::optional<ImageSize> listed = set.samples[place(k)].size;
    if (!found[k] || *found[k] == *listed) continue;
    forget_sizes(set);
    const std::string list = set.list_name.empty() ? "the list of images" : set.list_name;
    set.notes.push_back(formatted(
        "%s lists '%s' with %d x %d pixels, but it has %d x %d; the sizes are read from the images",
        list.c_str(), std::string(set.samples.file_name(place(k))).c_str(), listed->width,
        listed->height, found[k]->width, found[k]->height));
    return;
  }
}

}  // namespace

std::size_t scan_sizes(Dataset& set, SizesWanted wanted) {
  set.sizes_with == set.exif ? forget_wrong_sizes(set) : forget_sizes(set);
  set.sizes_with = set.exif;
  std::atomic<std::size_t> num_filled = 0;
  std::atomic<std::uint64_t> first_size = 0;
  std::atomic<bool> differ = false;
  const auto compare = [&](ImageSize size) {
    const auto packed =
        static_cast<std::uint64_t>(size.height) << 32 | static_cast<std::uint32_t>(size.width);
    std::uint64_t first = 0;
    if (!first_size.compare_exchange_strong(first, packed) && first != packed) differ = true;
  };
  for_images(set.samples.size(), [&](std::size_t i, std::string& buffer) {
    if (wanted == SizesWanted::kCommon && differ) return;
    std::optional<ImageSize> size = set.samples[i].size;
    if (!size && (size = size_of(set, i, buffer))) {
      set.samples.set_size(i, *size);
      ++num_filled;
    }
    if (size) compare(*size);
  });
  return num_filled;
}

TurnedImages turned_images(const Dataset& set, std::size_t most) {
  const std::size_t count = std::min(most, set.samples.size());
  std::atomic<std::size_t> turned = 0;
  for_images(count, [&](std::size_t i, std::string& buffer) {
    if (seen_in(set, i, buffer, read_orientation).value_or(1) != 1) ++turned;
  });
  return {turned, count};
}

std::string note_of_lost_contrast(const Dataset& set) {
  constexpr std::size_t kFew = 5;
  constexpr int kDark = 64;  // the high byte of a sample of 14 bits is below it
  const std::size_t count = std::min(set.samples.size(), kFew);
  int highest = -1;
  bool are_dark = true, are_plain = true;
  std::string bytes;
  for (std::size_t place = 0; place < count; ++place) {
    try {
      const std::size_t i = place * set.samples.size() / count;
      read_first_bytes(set, i, 16, bytes);
      // These have 8 bits, and no transparency.
      if (image_kind(bytes) == "JPEG" || image_kind(bytes) == "HEIC") return {};
      are_dark = are_dark && image_kind(bytes) != "WebP";  // has 8 bits
      read_image_bytes(set, i, bytes);
      const std::vector<std::uint8_t> pixels = decode_image(bytes, set.exif).image.pixels;
      highest = std::max<int>(highest, *std::ranges::max_element(pixels));
      are_dark = are_dark && highest < kDark;
      are_plain = are_plain && std::equal(pixels.begin() + 3, pixels.end(), pixels.begin());
      if (!are_dark && !are_plain) return {};
    } catch (const ImageFault&) {  // the loader will report why
    }
  }
  if (highest < 0) return {};
  if (are_plain)
    return formatted(
        "the images of '%s' have one color each, as far as %zu of them show: transparency is not "
        "used, so put them on a background",
        set.root.string().c_str(), count);
  return formatted(
      "the images of '%s' are nearly black: in %zu of them no sample is above %d of 255. If they "
      "have 16 bits, of which the high byte counts, scale them to use all 16",
      set.root.string().c_str(), count, highest);
}

std::optional<double> median_of_sizes(const Dataset& set, std::size_t most,
                                      const std::function<double(ImageSize)>& measure) {
  const std::size_t count = std::min(most, set.samples.size());
  std::vector<double> found(count, std::numeric_limits<double>::infinity());
  for_images(count, [&](std::size_t place, std::string& buffer) {
    const std::size_t i = place * set.samples.size() / count;
    std::optional<ImageSize> size;
    if (set.sizes_with == set.exif) size = set.samples[i].size;
    if (!size) size = size_of(set, i, buffer);
    if (size) found[place] = measure(*size);
  });
  std::erase(found, std::numeric_limits<double>::infinity());
  if (found.empty()) return {};
  const auto middle = found.begin() + std::ssize(found) / 2;
  std::ranges::nth_element(found, middle);
  return *middle;
}

std::optional<double> share_cut_away(const Dataset& set, ImageSize output) {
  return median_of_sizes(set, /*most=*/2000, [output](ImageSize size) {
    const double ratio =
        static_cast<double>(size.width) * output.height / size.height / output.width;
    return 1 - std::min(ratio, 1 / ratio);
  });
}

std::optional<ImageSize> common_size(const std::vector<const Dataset*>& sets) {
  std::optional<ImageSize> common;
  for (const Dataset* set : sets) {
    for (const Sample& item : set->samples) {
      if (!item.size) continue;
      if (common && *common != *item.size) return std::nullopt;
      common = item.size;
    }
  }
  return common;
}

AutomaticSize automatic_size(const std::vector<const Dataset*>& sets, int usual) {
  constexpr int kMaxKept = 256;
  const std::string images =
      sets.front()->is_stream() ? "all validation images have " : "all images have ";
  const std::optional<ImageSize> common = common_size(sets);
  if (!common) return {{usual, usual}, false, "images have several sizes"};
  if (sets.front()->is_image_directory || std::max(common->height, common->width) <= kMaxKept)
    return {*common, true, images + "this size"};
  return {{usual, usual},
          false,
          images + formatted("%dx%d, larger than %d", common->width, common->height, kMaxKept)};
}

}  // namespace kiln
