// Operations that move pixels without changing them: crops, padding, flips.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "data/transform/augment.h"
#include "data/transform/crop.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

// Crops the image to `wanted`, which may reach beyond it. What lies outside of the image gets the
// color `outside`.
void cut(WorkImage& image, const Region& wanted, const Color& outside) {
  if (wanted == Region{0, 0, image.size}) return;
  const auto [top, left, size] = wanted;
  std::uint8_t* target = image.begin(size);
  const int first = std::clamp(-left, 0, size.width);
  const int last = std::clamp(image.size.width - left, first, size.width);
  const auto fill = [&](int begin, int end) {
    for (int x = begin; x < end; ++x, target += 3) std::copy_n(outside.data(), 3, target);
  };
  for (int y = top; y < top + size.height; ++y) {
    if (y < 0 || y >= image.size.height) {
      fill(0, size.width);
      continue;
    }
    fill(0, first);
    const auto from = static_cast<std::size_t>(y) * static_cast<std::size_t>(image.size.width) +
                      static_cast<std::size_t>(std::max(left, 0));
    const auto bytes = static_cast<std::size_t>(last - first) * 3;
    if (bytes > 0) std::memcpy(target, image.pixels.data() + from * 3, bytes);
    target += bytes;
    fill(last, size.width);
  }
  image.replace(size);
}

void check_size(ImageSize size) {
  if (!is_plausible(size))
    throw ImageFault("its operations would enlarge it to " + text_of(size) + " pixels");
}

enum class PadMode { kConstant, kEdge, kReflect, kSymmetric };

// Returns which pixel of a row of `length` is repeated at position `i`, which may be before its
// start or after its end.
int mirrored(int i, int length, PadMode mode) {
  if (mode == PadMode::kEdge) return std::clamp(i, 0, length - 1);
  const bool repeats_edge = mode == PadMode::kSymmetric;
  const int period = std::max(1, repeats_edge ? 2 * length : 2 * length - 2);
  const int place = ((i % period) + period) % period;
  return place < length ? place : (repeats_edge ? period - 1 : period) - place;
}

struct Border {
  int left = 0, top = 0, right = 0, bottom = 0;  // negative: so much is cut off
  PadMode mode = PadMode::kConstant;
  Color color{};

  ImageSize around(ImageSize size) const {
    return {size.height + top + bottom, size.width + left + right};
  }

  void apply(WorkImage& image) const {
    if (mode == PadMode::kConstant) return cut(image, {-top, -left, around(image.size)}, color);
    const Region inner{std::max(0, -top),
                       std::max(0, -left),
                       {image.size.height + std::min(0, top) + std::min(0, bottom),
                        image.size.width + std::min(0, left) + std::min(0, right)}};
    check_size(inner.size);  // at least one pixel must be left to repeat
    cut(image, inner, color);
    const ImageSize from = image.size;
    const ImageSize to{from.height + std::max(0, top) + std::max(0, bottom),
                       from.width + std::max(0, left) + std::max(0, right)};
    std::uint8_t* target = image.begin(to);
    for (int y = 0; y < to.height; ++y) {
      const auto row = static_cast<std::size_t>(mirrored(y - std::max(0, top), from.height, mode)) *
                       static_cast<std::size_t>(from.width);
      for (int x = 0; x < to.width; ++x, target += 3) {
        const int column = mirrored(x - std::max(0, left), from.width, mode);
        std::memcpy(target, image.pixels.data() + (row + static_cast<std::size_t>(column)) * 3, 3);
      }
    }
    image.replace(to);
  }
};

// Reads one number for all sides; two, for left and right and for top and bottom; or four, for
// left, top, right and bottom.
Border border_of(Arguments& arguments) {
  Border border;
  constexpr Range kPixels{-kMaxSide, kMaxSide};
  const std::vector<double> given = arguments.numbers("padding", kPixels, {1, 2, 4});
  const auto side = [&](std::size_t i) {
    return given.empty() ? 0 : static_cast<int>(given[i % given.size()]);
  };
  border.left = side(0);
  border.top = side(1);
  border.right = side(2);
  border.bottom = side(3);
  const auto is_fraction = [](double pixels) { return pixels != std::trunc(pixels); };
  if (std::any_of(given.begin(), given.end(), is_fraction))
    arguments.refuse("padding", "whole pixels");
  border.color = arguments.color("fill");
  const std::vector<std::string> modes = {"constant", "edge", "reflect", "symmetric"};
  const std::string mode = arguments.word("padding_mode", modes);
  if (!mode.empty()) {
    const auto place = std::find(modes.begin(), modes.end(), mode) - modes.begin();
    border.mode = static_cast<PadMode>(place);
  }
  return border;
}

class Pad : public ImageTransform {
 public:
  explicit Pad(const Border& border) : border_(border) {}
  void apply(WorkImage& image, RandomSequence&) const override {
    check_size(border_.around(image.size));
    border_.apply(image);
  }
  std::optional<ImageSize> size_after(std::optional<ImageSize> whole) const override {
    if (!whole) return {};
    check_size(border_.around(*whole));
    return border_.around(*whole);
  }

 private:
  Border border_;
};

// Pads a smaller image with black.
class CenterCrop : public ImageTransform {
 public:
  explicit CenterCrop(ImageSize size) : size_(size) {}
  void apply(WorkImage& image, RandomSequence&) const override {
    const auto offset = [](int length, int cropped) {
      return cropped > length ? -((cropped - length) / 2) : center_offset(length - cropped);
    };
    cut(image,
        {offset(image.size.height, size_.height), offset(image.size.width, size_.width), size_},
        {});
  }
  std::optional<ImageSize> size_after(std::optional<ImageSize>) const override { return size_; }

 private:
  ImageSize size_;
};

class RandomCrop : public ImageTransform {
 public:
  RandomCrop(ImageSize size, const Border& border, bool pads_if_needed)
      : size_(size), border_(border), pads_if_needed_(pads_if_needed) {}

  void apply(WorkImage& image, RandomSequence& random) const override {
    check_size(border_.around(image.size));
    border_.apply(image);
    // The whole missing size is added on both sides, so that the image may lie anywhere in the
    // crop.
    Border more{.mode = border_.mode, .color = border_.color};
    if (pads_if_needed_) {
      more.left = more.right = std::max(0, size_.width - image.size.width);
      more.top = more.bottom = std::max(0, size_.height - image.size.height);
    }
    check_size(more.around(image.size));
    more.apply(image);
    check_fits(image.size);
    const auto below = [&](int n) {
      return static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
    };
    const int top = below(image.size.height - size_.height + 1);
    const int left = below(image.size.width - size_.width + 1);
    cut(image, {top, left, size_}, {});
  }

  std::optional<ImageSize> size_after(std::optional<ImageSize> whole) const override {
    if (whole && !pads_if_needed_) check_fits(border_.around(*whole));
    return size_;
  }
  bool is_random() const override { return true; }

 private:
  void check_fits(ImageSize whole) const {
    if (whole.height < size_.height || whole.width < size_.width)
      throw ImageFault("it is " + text_of(whole) + " pixels, but the crop needs " + text_of(size_));
  }

  ImageSize size_;
  Border border_;
  bool pads_if_needed_;
};

class RandomFlip : public ImageTransform {
 public:
  RandomFlip(void (*flip)(std::uint8_t*, ImageSize), double probability)
      : flip_(flip), probability_(probability) {}
  void apply(WorkImage& image, RandomSequence& random) const override {
    if (random.uniform() < probability_) flip_(image.pixels.data(), image.size);
  }
  bool is_random() const override { return true; }

 private:
  void (*flip_)(std::uint8_t*, ImageSize);
  double probability_;
};

}  // namespace

MadeTransform make_pad(Arguments& arguments) {
  arguments.require("padding");
  return std::make_unique<Pad>(border_of(arguments));
}

MadeTransform make_center_crop(Arguments& arguments) {
  return std::make_unique<CenterCrop>(arguments.size("size"));
}

MadeTransform make_random_crop(Arguments& arguments) {
  const ImageSize size = arguments.size("size");
  return std::make_unique<RandomCrop>(size, border_of(arguments),
                                      arguments.truth("pad_if_needed", false));
}

MadeTransform make_random_horizontal_flip(Arguments& arguments) {
  return std::make_unique<RandomFlip>(flip_horizontally, arguments.probability("p", 0.5));
}

MadeTransform make_random_vertical_flip(Arguments& arguments) {
  return std::make_unique<RandomFlip>(flip_vertically, arguments.probability("p", 0.5));
}

}  // namespace kiln
