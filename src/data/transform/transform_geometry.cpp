// Operations that rotate and distort: RandomRotation, RandomAffine, RandomPerspective.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <vector>

#include "data/transform/augment.h"
#include "data/transform/image_transform.h"
#include "data/transform/warp.h"

namespace kiln {
namespace {

using Point = std::array<double, 2>;  // x, y

Interpolation warp_interpolation(Arguments& arguments, Interpolation usual) {
  const Interpolation chosen = arguments.interpolation("interpolation", usual);
  if (chosen != Interpolation::kNearest && chosen != Interpolation::kBilinear &&
      chosen != Interpolation::kBicubic)
    arguments.refuse("interpolation", "0 (nearest), 2 (bilinear) or 3 (bicubic)");
  return chosen;
}

std::optional<Point> center_of(Arguments& arguments) {
  const std::vector<double> given = arguments.numbers("center", {-1e6, 1e6}, {2});
  if (given.size() != 2) return {};
  return Point{given[0], given[1]};
}

Point middle_of(ImageSize size) {
  return {size.width * 0.5, size.height * 0.5};
}

// Returns the size that holds the whole image rotated by `map`, as Pillow's expand computes it: in
// whole pixels between the outermost corners.
ImageSize expanded(ImageSize size, const PlaneMap& map) {
  double low_x = 1e18, high_x = -1e18, low_y = 1e18, high_y = -1e18;
  for (const double x : {0.0, static_cast<double>(size.width)}) {
    for (const double y : {0.0, static_cast<double>(size.height)}) {
      const double to_x = map.a * x + map.b * y + map.c, to_y = map.d * x + map.e * y + map.f;
      low_x = std::min(low_x, to_x);
      high_x = std::max(high_x, to_x);
      low_y = std::min(low_y, to_y);
      high_y = std::max(high_y, to_y);
    }
  }
  return {static_cast<int>(std::ceil(high_y) - std::floor(low_y)),
          static_cast<int>(std::ceil(high_x) - std::floor(low_x))};
}

// Returns the map from a pixel of the result to its place in the image, for a rotation around
// `center`. Sines and cosines are rounded so that those of quarter turns are exact.
PlaneMap turned(double degrees, Point center) {
  const auto rounded = [](double value) { return std::round(value * 1e15) / 1e15; };
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const auto [x, y] = center;
  return {.a = cosine,
          .b = -sine,
          .c = x - cosine * x + sine * y,
          .d = sine,
          .e = cosine,
          .f = y - sine * x - cosine * y};
}

class RandomRotation : public ImageTransform {
 public:
  Range degrees;  // counterclockwise
  Interpolation interpolation = Interpolation::kNearest;
  bool expands = false;
  std::optional<Point> center;
  Color outside{};

  void apply(WorkImage& image, RandomSequence& random) const override {
    const double angle = std::fmod(std::fmod(draw_between(degrees, random), 360.0) + 360, 360.0);
    if (!center && turn_quarters(image, angle)) return;
    PlaneMap map = turned(angle, center.value_or(middle_of(image.size)));
    ImageSize to = image.size;
    if (expands) {
      to = expanded(image.size, map);
      const double x = (image.size.width - to.width) / 2.0;
      const double y = (image.size.height - to.height) / 2.0;
      map.c += map.a * x + map.b * y;
      map.f += map.d * x + map.e * y;
    }
    warp(image, to, map, interpolation, outside);
  }
  std::optional<ImageSize> size_after(std::optional<ImageSize> whole) const override {
    return expands ? std::nullopt : whole;
  }
  bool is_random() const override { return true; }

 private:
  // Rotates by quarter turns without interpolation. False if the angle or the shape does not allow
  // it.
  static bool turn_quarters(WorkImage& image, double angle) {
    const bool is_square = image.size.width == image.size.height;
    const double quarters = angle / 90;
    if (quarters != std::trunc(quarters) || (!is_square && quarters != 0 && quarters != 2))
      return false;
    turn(image.pixels.data(), image.size, static_cast<int>(quarters), image.copy);
    return true;
  }
};

class RandomAffine : public ImageTransform {
 public:
  Range degrees;  // clockwise
  Point translation{};
  std::optional<Range> scale;
  std::vector<Range> shears;
  Interpolation interpolation = Interpolation::kNearest;
  std::optional<Point> center;
  Color outside{};

  void apply(WorkImage& image, RandomSequence& random) const override {
    AffineMotion motion{.angle = draw_between(degrees, random)};
    const Point most{translation[0] * image.size.width, translation[1] * image.size.height};
    for (std::size_t i = 0; i < 2; ++i)
      motion.translation[i] = std::nearbyint(draw_between({-most[i], most[i]}, random));
    if (scale) motion.scale = draw_between(*scale, random);
    for (std::size_t i = 0; i < shears.size(); ++i)
      motion.shear[i] = draw_between(shears[i], random);
    warp(image, image.size, inverse_of(motion, center.value_or(middle_of(image.size))),
         interpolation, outside);
  }
  bool is_random() const override { return true; }
};

class RandomPerspective : public ImageTransform {
 public:
  double distortion = 0.5, probability = 0.5;
  Interpolation interpolation = Interpolation::kBilinear;
  Color outside{};

  void apply(WorkImage& image, RandomSequence& random) const override {
    if (random.uniform() >= probability) return;
    const double right = image.size.width - 1, bottom = image.size.height - 1;
    const Corners starts = {{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
    Corners ends = starts;
    const int half_width = image.size.width / 2, half_height = image.size.height / 2;
    const Point most{std::trunc(distortion * half_width), std::trunc(distortion * half_height)};
    for (Point& corner : ends) {
      for (std::size_t i = 0; i < 2; ++i) {
        const auto inward =
            static_cast<double>(random.below(static_cast<std::uint64_t>(most[i]) + 1));
        corner[i] += corner[i] == 0 ? inward : -inward;
      }
    }
    // If three corners have become collinear, no perspective maps to them, and the image stays as
    // it is.
    const std::optional<PlaneMap> map = map_of_corners(starts, ends);
    if (map) warp(image, image.size, *map, interpolation, outside);
  }
  bool is_random() const override { return true; }
};

Range degrees_of(Arguments& arguments) {
  arguments.require("degrees");
  const std::vector<Range> degrees = arguments.angles("degrees", {2});
  return degrees.empty() ? Range{} : degrees.front();
}

}  // namespace

MadeTransform make_random_rotation(Arguments& arguments) {
  auto made = std::make_unique<RandomRotation>();
  made->degrees = degrees_of(arguments);
  made->interpolation = warp_interpolation(arguments, Interpolation::kNearest);
  made->expands = arguments.truth("expand", false);
  made->center = center_of(arguments);
  made->outside = arguments.color("fill");
  return made;
}

MadeTransform make_random_affine(Arguments& arguments) {
  auto made = std::make_unique<RandomAffine>();
  made->degrees = degrees_of(arguments);
  const std::vector<double> shares = arguments.numbers("translate", {0, 1}, {2});
  if (shares.size() == 2) made->translation = {shares[0], shares[1]};
  if (arguments.has("scale")) made->scale = arguments.range("scale", {1e-6, 1e6}, {1, 1});
  made->shears = arguments.angles("shear", {2, 4});
  made->interpolation = warp_interpolation(arguments, Interpolation::kNearest);
  made->outside = arguments.color("fill");
  made->center = center_of(arguments);
  return made;
}

MadeTransform make_random_perspective(Arguments& arguments) {
  auto made = std::make_unique<RandomPerspective>();
  made->distortion = arguments.number("distortion_scale", {0, 1}, 0.5);
  made->probability = arguments.probability("p", 0.5);
  made->interpolation = warp_interpolation(arguments, Interpolation::kBilinear);
  made->outside = arguments.color("fill");
  return made;
}

}  // namespace kiln
