#include "tools/audit/image_checks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "predict/pictures.h"

namespace kiln {

std::vector<ImageCopy> listed_copies(std::span<const std::pair<std::uint32_t, std::uint32_t>> exact,
                                     std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                     std::span<const std::int32_t> labels) {
  std::vector<ImageCopy> copies;
  const auto add = [&](const auto& pairs, bool is_exact) {
    for (const auto& [first, other] : pairs)
      copies.push_back({first, other, is_exact, labels[first] == labels[other]});
  };
  add(exact, /*is_exact=*/true);
  add(near, /*is_exact=*/false);
  std::ranges::sort(copies, {}, [](const ImageCopy& copy) {
    return std::tuple(copy.same_class, !copy.is_exact, copy.first, copy.other);
  });
  return copies;
}

DuplicatePairs copies_in(const ScannedImages& scanned, Log& log) {
  if (scanned.hashes.size() <= kMaxDecodedImages) return find_duplicates(scanned);
  log.info("copies:    only byte-identical ones, since there are more than " +
           grouped(kMaxDecodedImages) + " images");
  return find_duplicates({scanned.hashes, {}});
}

std::vector<ImageCopy> copies_of(const std::vector<const Dataset*>& sets,
                                 const DuplicatePairs& pairs) {
  std::map<std::string, std::int32_t> numbers;  // of the classes
  std::vector<std::int32_t> labels;
  for (const Dataset* set : sets)
    for (std::size_t i = 0; i < set->samples.size(); ++i) {
      const std::string name = set->label_text(set->samples.label(i));
      const auto next = static_cast<std::int32_t>(numbers.size());
      labels.push_back(numbers.emplace(name, next).first->second);
    }
  return listed_copies(pairs.exact, pairs.near, labels);
}

namespace {

constexpr int kLongestSide = 256;  // of an image when it is measured
// The difference of brightness, of 255, up to which pixels look alike.
constexpr std::size_t kAlike = 8;

// Beyond these limits a person notices the flaw. Normal photos stay within all of them, even at 32
// pixels.
constexpr double kDarkHighlight = 0.25, kBrightShadow = 0.85, kEmptyDetail = 0.05;
constexpr double kBlurredSharpness = 0.03;
// The factors by which an image must also differ from the usual one.
constexpr double kApart = 2, kBlurApart = 12, kSizeApart = 4, kShapeApart = 2.5;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double short_side(const ImageMeasures& image) {
  return std::min(image.size.height, image.size.width);
}

double aspect(const ImageMeasures& image) {
  return static_cast<double>(image.size.width) / image.size.height;
}

double factor(double limit, double value) {
  return limit / std::max(value, 1e-3);
}

// Returns the first flaw of the pixels, regardless of the image's size and shape; empty if there is
// none.
std::vector<FoundFlaw> flaw_of_pixels(const ImageMeasures& image, const UsualImage& usual) {
  if (image.detail < kEmptyDetail && image.detail * kApart < usual.detail)
    return {{Flaw::kEmpty, factor(kEmptyDetail, image.detail),
             formatted("%.1f %% of its pixels are about equally bright; %.0f %% is typical",
                       100 * (1 - image.detail), 100 * (1 - usual.detail))}};
  if (image.highlight < kDarkHighlight && image.highlight * kApart < usual.highlight)
    return {{Flaw::kDark, factor(kDarkHighlight, image.highlight),
             formatted("95 %% of its pixels are below a brightness of %.0f %%; %.0f %% is typical",
                       100 * image.highlight, 100 * usual.highlight)}};
  if (image.shadow > kBrightShadow && (1 - image.shadow) * kApart < 1 - usual.shadow)
    return {{Flaw::kBright, factor(1 - kBrightShadow, 1 - image.shadow),
             formatted("95 %% of its pixels are above a brightness of %.0f %%; %.0f %% is typical",
                       100 * image.shadow, 100 * usual.shadow)}};
  if (image.sharpness < kBlurredSharpness && image.sharpness * kBlurApart < usual.sharpness)
    return {{Flaw::kBlurred, factor(kBlurredSharpness, image.sharpness),
             formatted("it has %.2g times the fine detail of a typical image",
                       image.sharpness / usual.sharpness)}};
  return {};
}

double shrink_to_measure(ImageSize whole) {
  return std::max(1.0, static_cast<double>(std::max(whole.height, whole.width)) / kLongestSide);
}

}  // namespace

ImageMeasures measure_image(const Image& image, ImageSize stored) {
  const PicturesModule& module = require_pictures_module();
  const Picture used = module.shrunk(picture_of(image), kLongestSide);
  const Brightness found = module.brightness(used);
  const auto& counts = found.counts;
  const auto num_pixels = static_cast<double>(used.height) * used.width;
  const auto quantile = [&](double share) {
    double below = 0;
    std::size_t at = 0;
    while (at < 255 && below + counts[at] <= std::floor(share * num_pixels)) below += counts[at++];
    return static_cast<double>(at) / 255;
  };
  double most = 0;
  for (std::size_t center = 0; center < 256; ++center)
    most = std::max(
        most, std::accumulate(&counts[center - std::min(center, kAlike)],
                              &counts[0] + std::min(center + kAlike + 1, counts.size()), 0.0));
  // An image without inner pixels or without contrast is never blurred.
  const bool has_detail = found.detail >= 0 && found.deviation >= 1;
  return {stored, quantile(0.95), quantile(0.05), 1 - most / num_pixels,
          has_detail ? std::pow(found.detail / found.deviation, 2) : 1};
}

std::string flaw_name(Flaw flaw) {
  constexpr const char* kNames[] = {"nearly empty", "dark",      "bright", "blurred",
                                    "small",        "odd shape", "outlier"};
  return kNames[static_cast<std::size_t>(flaw)];
}

UsualImage usual_image(std::span<const ImageMeasures> images) {
  const auto usual = [&](auto number) {
    std::vector<double> values;
    for (const ImageMeasures& image : images)
      if (image.is_known()) values.push_back(std::invoke(number, image));
    return median(std::move(values));
  };
  return {usual(&ImageMeasures::highlight),
          usual(&ImageMeasures::shadow),
          usual(&ImageMeasures::detail),
          usual(&ImageMeasures::sharpness),
          usual(short_side),
          usual(aspect)};
}

std::vector<FoundFlaw> flaws_of(const ImageMeasures& image, const UsualImage& usual) {
  if (!image.is_known()) return {};
  std::vector<FoundFlaw> flaws = flaw_of_pixels(image, usual);
  if (const double smaller = usual.short_side / short_side(image); smaller > kSizeApart)
    flaws.push_back({Flaw::kSmall, smaller / kSizeApart,
                     formatted("%dx%d pixels; the shorter side is typically %.0f", image.size.width,
                               image.size.height, usual.short_side)});
  const double own = aspect(image);
  if (const double apart = std::max(own / usual.aspect, usual.aspect / own); apart > kShapeApart)
    flaws.push_back({Flaw::kOddShape, apart / kShapeApart,
                     formatted("%dx%d pixels: aspect ratio %.2g, typically %.2g", image.size.width,
                               image.size.height, own, usual.aspect)});
  return flaws;
}

ImageLooks look_at_images(Dataset& set, int num_threads, Log& log) {
  warn_without_pictures(log);
  ImageLooks images;
  images.measures.resize(set.samples.size());
  images.facts.resize(set.samples.size());
  const auto measure = [&images](std::size_t i, const Image& image, ImageSize whole,
                                 std::string_view bytes) {
    images.facts[i] = image_facts(bytes, image, whole);
    if (pictures_module() != nullptr) images.measures[i] = measure_image(image, whole);
  };
  images.scanned = scan_images({&set}, {.num_threads = num_threads,
                                        .shrink = shrink_to_measure,
                                        .visit = measure,
                                        .decode_all = true});
  return images;
}

}  // namespace kiln
