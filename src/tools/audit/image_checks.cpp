#include "tools/audit/image_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "base/text.h"
#include "data/image/resample.h"

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
  std::sort(copies.begin(), copies.end(), [](const ImageCopy& a, const ImageCopy& b) {
    return std::tuple(a.same_class, !a.is_exact, a.first, a.other) <
           std::tuple(b.same_class, !b.is_exact, b.first, b.other);
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
constexpr int kAlike = 8;  // difference of brightness, of 255, up to which pixels look alike

// Beyond these limits a person notices the flaw. Normal photos stay within all of them, even at 32
// pixels.
constexpr double kDarkHighlight = 0.25, kBrightShadow = 0.85, kEmptyDetail = 0.05;
constexpr double kBlurredSharpness = 0.03;
// The factors by which an image must also differ from the usual one.
constexpr double kApart = 2, kBlurApart = 12, kSizeApart = 4, kShapeApart = 2.5;

// [H, W], from 0 to 255.
std::vector<std::uint8_t> brightness_of(const Image& image) {
  std::vector<std::uint8_t> values(image.pixels.size() / 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint8_t* rgb = &image.pixels[3 * i];
    values[i] =
        static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
  }
  return values;
}

Image shrunk(const Image& image) {
  const int longest = std::max(image.size.height, image.size.width);
  const auto side = [&](int length) {
    return std::max(
        1, static_cast<int>(std::lround(length * static_cast<double>(kLongestSide) / longest)));
  };
  return resized(image, {side(image.size.height), side(image.size.width)});
}

struct Moments {
  double sum = 0, squares = 0, count = 0;
  void add(double value) {
    sum += value;
    squares += value * value;
    count += 1;
  }
  double variance() const {
    return count > 0 ? std::max(squares / count - (sum / count) * (sum / count), 0.0) : 0;
  }
};

double sharpness_of(const std::vector<std::uint8_t>& values, ImageSize size) {
  const auto width = static_cast<std::size_t>(size.width);
  Moments laplacian, brightness;
  for (const std::uint8_t value : values) brightness.add(value);
  for (std::size_t y = 1; y + 1 < static_cast<std::size_t>(size.height); ++y)
    for (std::size_t x = 1; x + 1 < width; ++x) {
      const std::size_t i = y * width + x;
      laplacian.add(values[i - 1] + values[i + 1] + values[i - width] + values[i + width] -
                    4 * values[i]);
    }
  // An image without inner pixels or without contrast is never blurred.
  if (laplacian.count == 0 || brightness.variance() < 1) return 1;
  return laplacian.variance() / brightness.variance();
}

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
  const bool is_large = std::max(image.size.height, image.size.width) > kLongestSide;
  const Image small = is_large ? shrunk(image) : Image{};
  const Image& used = is_large ? small : image;
  const std::vector<std::uint8_t> values = brightness_of(used);
  std::array<std::size_t, 256> histogram{};
  for (const std::uint8_t value : values) ++histogram.at(value);
  const auto quantile = [&](double share) {
    std::size_t below = 0, at = 0;
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(values.size()));
    while (at < 255 && below + histogram.at(at) <= wanted) below += histogram.at(at++);
    return static_cast<double>(at) / 255;
  };
  std::size_t most = 0;
  for (int center = 0; center < 256; ++center) {
    std::size_t alike = 0;
    for (int at = std::max(0, center - kAlike); at <= std::min(255, center + kAlike); ++at)
      alike += histogram.at(at);
    most = std::max(most, alike);
  }
  return {stored, quantile(0.95), quantile(0.05),
          1 - static_cast<double>(most) / static_cast<double>(values.size()),
          sharpness_of(values, used.size)};
}

std::string flaw_name(Flaw flaw) {
  constexpr const char* kNames[] = {"nearly empty", "dark",  "bright",
                                    "blurred",      "small", "odd shape"};
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

ImageLooks look_at_images(Dataset& set, int num_threads) {
  ImageLooks images;
  images.measures.resize(set.samples.size());
  images.scanned = scan_images(
      {&set},
      {.num_threads = num_threads,
       .shrink = shrink_to_measure,
       .visit = [&images](std::size_t i, const Image& image,
                          ImageSize whole) { images.measures[i] = measure_image(image, whole); },
       .decode_all = true});
  return images;
}

}  // namespace kiln
