// Operations that resample: Resize and RandomResizedCrop.
#include <algorithm>
#include <memory>
#include <string>

#include "data/image/resample.h"
#include "data/transform/augment.h"
#include "data/transform/crop.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

ResizeFilter filter_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kNearest:
      return ResizeFilter::kNearest;
    case Interpolation::kLanczos:
      return ResizeFilter::kLanczos;
    case Interpolation::kBicubic:
      return ResizeFilter::kBicubic;
    case Interpolation::kBox:
      return ResizeFilter::kBox;
    default:
      return ResizeFilter::kHamming;
  }
}

// Replaces the image by `part` of it, resized to `to`.
void resize(WorkImage& image, const Region& part, ImageSize to, Interpolation interpolation) {
  if (part == Region{0, 0, to} && image.size == to) return;
  if (!is_plausible({part.size.height, to.width}))  // the size between the two passes
    throw ImageFault("too elongated to resize: " + text_of(part.size));
  std::uint8_t* target = image.begin(to);
  const Placing placing = place_crop(part, to);
  const PixelView view{image.pixels.data(), {0, 0, image.size}};
  if (part.size == to)
    copy_region(view, part, false, target);
  else if (interpolation == Interpolation::kBilinear)
    image.resampler.write(view, placing.rows, placing.columns, false, target);
  else
    resize_with_filter(image.pixels.data(), image.size, part, to, filter_of(interpolation),
                       image.copy, target);
  image.replace(to);
}

class Resize : public ImageTransform {
 public:
  // `longest` limits the long side; 0: no limit.
  Resize(ImageSize size, bool keeps_ratio, int longest, Interpolation interpolation)
      : size_(size), keeps_ratio_(keeps_ratio), longest_(longest), interpolation_(interpolation) {}

  void apply(WorkImage& image, RandomSequence&) const override {
    resize(image, {0, 0, image.size}, resized(image.size), interpolation_);
  }

  std::optional<ImageSize> size_after(std::optional<ImageSize> whole) const override {
    if (!keeps_ratio_) return size_;
    return whole ? std::optional(resized(*whole)) : std::nullopt;
  }

 private:
  ImageSize resized(ImageSize whole) const {
    if (!keeps_ratio_) return size_;
    const bool is_bounded = longest_ > 0;
    const std::int64_t length = std::int64_t{size_.height} * std::max(whole.height, whole.width) /
                                std::min(whole.height, whole.width);
    if (!is_bounded || length <= longest_) return resized_size(whole, size_.height);
    const auto side = static_cast<int>(std::int64_t{longest_} * size_.height / length);
    if (side == 0) throw ImageFault("too elongated to resize: " + text_of(whole));
    return whole.height <= whole.width ? ImageSize{side, longest_} : ImageSize{longest_, side};
  }

  ImageSize size_;
  bool keeps_ratio_;
  int longest_;
  Interpolation interpolation_;
};

class RandomResizedCrop : public ImageTransform {
 public:
  RandomResizedCrop(ImageSize size, const RectangleRange& range, Interpolation interpolation)
      : size_(size), range_(range), interpolation_(interpolation) {}
  void apply(WorkImage& image, RandomSequence& random) const override {
    resize(image, draw_crop(image.size, random, range_), size_, interpolation_);
  }
  std::optional<ImageSize> size_after(std::optional<ImageSize>) const override { return size_; }
  bool is_random() const override { return true; }

 private:
  ImageSize size_;
  RectangleRange range_;
  Interpolation interpolation_;
};

}  // namespace

MadeTransform make_resize(Arguments& arguments) {
  const ImageSize size = arguments.size("size");
  const Interpolation interpolation =
      arguments.interpolation("interpolation", Interpolation::kBilinear);
  const int longest = arguments.whole("max_size", 1, kMaxSide, 0);
  const bool keeps_ratio = arguments.is_one("size");
  if (longest > 0 && !keeps_ratio)
    arguments.refuse("max_size", "null, since the size has two sides");
  else if (longest > 0 && longest <= size.height)
    arguments.refuse("max_size", "more than the size");
  arguments.truth("antialias", true);  // only checked: 8-bit pixels are always antialiased
  return std::make_unique<Resize>(size, keeps_ratio, longest, interpolation);
}

MadeTransform make_random_resized_crop(Arguments& arguments) {
  const ImageSize size = arguments.size("size");
  RectangleRange range;
  const Range area = arguments.range("scale", {0, 1}, {range.least_area, range.max_area});
  const Range ratio = arguments.range("ratio", {1e-6, 1e6}, {range.least_ratio, range.max_ratio});
  range = {area.low, area.high, ratio.low, ratio.high};
  const Interpolation interpolation =
      arguments.interpolation("interpolation", Interpolation::kBilinear);
  arguments.truth("antialias", true);
  return std::make_unique<RandomResizedCrop>(size, range, interpolation);
}

}  // namespace kiln
