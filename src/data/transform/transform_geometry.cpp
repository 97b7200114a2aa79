// Operations that rotate and distort: RandomRotation, RandomAffine, RandomPerspective. Computed as
// in Pillow's Image.transform.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "data/transform/augment.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

// The middle (x, y) of a pixel of the result comes from
//   ((a x + b y + c) / (g x + h y + 1), (d x + e y + f) / (g x + h y + 1)) of the image.
struct PlaneMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0, g = 0, h = 0;
};

using Point = std::array<double, 2>;  // x, y

using Corners = std::array<Point, 4>;

// Returns a pixel of the image, or of its border for a place beyond it.
const std::uint8_t* pixel_at(const PixelView& image, int x, int y) {
  const ImageSize size = image.region.size;
  return image.pixels +
         size.place_of(std::clamp(y, 0, size.height - 1), std::clamp(x, 0, size.width - 1));
}

void sample_nearest(const PixelView& image, double x, double y, std::uint8_t* rgb) {
  std::memcpy(rgb, pixel_at(image, static_cast<int>(x), static_cast<int>(y)), 3);
}

void sample_bilinear(const PixelView& image, double x, double y, std::uint8_t* rgb) {
  const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
  const double dx = x - 0.5 - left, dy = y - 0.5 - top;
  const int column = static_cast<int>(left), row = static_cast<int>(top);
  const std::uint8_t* corners[] = {pixel_at(image, column, row), pixel_at(image, column + 1, row),
                                   pixel_at(image, column, row + 1),
                                   pixel_at(image, column + 1, row + 1)};
  for (int c = 0; c < 3; ++c) {
    const double above = corners[0][c] + dx * (corners[1][c] - corners[0][c]);
    const double below = corners[2][c] + dx * (corners[3][c] - corners[2][c]);
    rgb[c] = static_cast<std::uint8_t>(above + dy * (below - above));
  }
}

// Cubic convolution with a = -1 through four values; `t`, from 0 to 1, is between v1 and v2.
double cubic(double v0, double v1, double v2, double v3, double t) {
  const double linear = v2 - v0, square = 2 * (v0 - v1) + v2 - v3, cube = v1 - v0 + v3 - v2;
  return v1 + t * (linear + t * (square + t * cube));
}

void sample_bicubic(const PixelView& image, double x, double y, std::uint8_t* rgb) {
  const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
  const double dx = x - 0.5 - left, dy = y - 0.5 - top;
  const int column = static_cast<int>(left) - 1, row = static_cast<int>(top) - 1;
  for (int c = 0; c < 3; ++c) {
    double rows[4];
    for (int i = 0; i < 4; ++i)
      rows[i] = cubic(pixel_at(image, column, row + i)[c], pixel_at(image, column + 1, row + i)[c],
                      pixel_at(image, column + 2, row + i)[c],
                      pixel_at(image, column + 3, row + i)[c], dx);
    rgb[c] = static_cast<std::uint8_t>(
        std::clamp(cubic(rows[0], rows[1], rows[2], rows[3], dy), 0.0, 255.0));
  }
}

template <typename Take>
void warp_with(const PixelView& image, ImageSize to, const PlaneMap& map, const Color& outside,
               std::uint8_t* target, Take&& take) {
  const ImageSize size = image.region.size;
  for (int row = 0; row < to.height; ++row) {
    const double y = row + 0.5;
    for (int column = 0; column < to.width; ++column, target += 3) {
      const double x = column + 0.5, depth = map.g * x + map.h * y + 1;
      const double from_x = (map.a * x + map.b * y + map.c) / depth;
      const double from_y = (map.d * x + map.e * y + map.f) / depth;
      // Also false for NaN.
      if (from_x >= 0 && from_x < size.width && from_y >= 0 && from_y < size.height)
        take(image, from_x, from_y, target);
      else
        std::memcpy(target, outside.data(), 3);
    }
  }
}

// `to` is the size of the result. Pixels from outside the image become `outside`. Interpolation is
// nearest, bilinear or bicubic, without antialiasing if the result is smaller.
void warp(WorkImage& image, ImageSize to, const PlaneMap& from, Interpolation interpolation,
          const Color& outside) {
  std::uint8_t* target = image.begin(to);
  const PixelView view{image.pixels.data(), {0, 0, image.size}};
  if (interpolation == Interpolation::kBilinear)
    warp_with(view, to, from, outside, target, sample_bilinear);
  else if (interpolation == Interpolation::kBicubic)
    warp_with(view, to, from, outside, target, sample_bicubic);
  else
    warp_with(view, to, from, outside, target, sample_nearest);
  image.replace(to);
}

// The inverse of a motion that translates by whole pixels, scales, shears and rotates around a
// center; angles in degrees, clockwise. As torchvision's affine.
//
// The motion is T C R S K C', where T translates, C moves the origin to the center, R rotates, S
// scales, K shears, and ' marks an inverse. The inverse of the motion is C K' S' R' C' T'; the
// determinant of K is 1.
PlaneMap inverse_of(double rotation, Point translation, double scale, Point shear, Point center) {
  const auto radians = [](double degrees) { return degrees * std::numbers::pi / 180; };
  const double angle = radians(rotation);
  const double along_x = radians(shear[0]), along_y = radians(shear[1]);
  const double cosine = std::cos(angle - along_y) / std::cos(along_y);
  const double sine = std::sin(angle - along_y) / std::cos(along_y);
  const double slope = std::tan(along_x);
  PlaneMap map{.a = (std::cos(angle) - sine * slope) / scale,
               .b = (std::sin(angle) + cosine * slope) / scale,
               .d = -sine / scale,
               .e = cosine / scale};
  const double x = center[0] + translation[0], y = center[1] + translation[1];
  map.c = center[0] - map.a * x - map.b * y;
  map.f = center[1] - map.d * x - map.e * y;
  return map;
}

// Maps `ends` (in the result) to `starts` (in the image), four corners (x, y) each. Empty if three
// of them are collinear.
std::optional<PlaneMap> map_of_corners(const Corners& starts, const Corners& ends) {
  constexpr std::size_t kUnknown = 8;
  double system[kUnknown][kUnknown + 1] = {};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto [x, y] = ends[i];
    for (std::size_t axis = 0; axis < 2; ++axis) {
      double* row = system[2 * i + axis];
      const double start = starts[i][axis];
      row[3 * axis] = x;
      row[3 * axis + 1] = y;
      row[3 * axis + 2] = 1;
      row[6] = -start * x;
      row[7] = -start * y;
      row[8] = start;
    }
  }
  // Gauss-Jordan elimination with partial pivoting.
  for (std::size_t k = 0; k < kUnknown; ++k) {
    std::size_t pivot = k;
    for (std::size_t row = k + 1; row < kUnknown; ++row)
      if (std::abs(system[row][k]) > std::abs(system[pivot][k])) pivot = row;
    if (std::abs(system[pivot][k]) < 1e-9) return {};
    std::swap(system[k], system[pivot]);
    for (std::size_t row = 0; row < kUnknown; ++row) {
      if (row == k) continue;
      const double factor = system[row][k] / system[k][k];
      for (std::size_t i = k; i <= kUnknown; ++i) system[row][i] -= factor * system[k][i];
    }
  }
  const auto solved = [&](std::size_t i) { return system[i][kUnknown] / system[i][i]; };
  return PlaneMap{solved(0), solved(1), solved(2), solved(3),
                  solved(4), solved(5), solved(6), solved(7)};
}

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
  std::vector<double> xs, ys;
  for (const double x : {0.0, static_cast<double>(size.width)}) {
    for (const double y : {0.0, static_cast<double>(size.height)}) {
      xs.push_back(map.a * x + map.b * y + map.c);
      ys.push_back(map.d * x + map.e * y + map.f);
    }
  }
  const auto length = [](const std::vector<double>& places) {
    const auto [low, high] = std::ranges::minmax(places);
    return static_cast<int>(std::ceil(high) - std::floor(low));
  };
  return {length(ys), length(xs)};
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

// Rotates by quarter turns without interpolation. False if the angle or the shape does not allow
// it.
bool turn_quarters(WorkImage& image, double angle) {
  const bool is_square = image.size.width == image.size.height;
  const double quarters = angle / 90;
  if (quarters != std::trunc(quarters) || (!is_square && quarters != 0 && quarters != 2))
    return false;
  turn(image.pixels.data(), image.size, static_cast<int>(quarters), image.copy);
  return true;
}

NumberRange degrees_of(Arguments& arguments) {
  arguments.require("degrees");
  const std::vector<NumberRange> degrees = arguments.angles("degrees", {2});
  return degrees.empty() ? NumberRange{} : degrees.front();
}

}  // namespace

ImageTransform make_random_rotation(Arguments& arguments) {
  const NumberRange degrees = degrees_of(arguments);  // counterclockwise
  const Interpolation interpolation = warp_interpolation(arguments, Interpolation::kNearest);
  const bool expands = arguments.truth("expand", false);
  const std::optional<Point> center = center_of(arguments);
  const Color outside = arguments.color("fill");
  const auto apply = [=](WorkImage& image, RandomSequence& random) {
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
  };
  const auto size_after = [expands](std::optional<ImageSize> whole) {
    return expands ? std::nullopt : whole;
  };
  return {.apply = apply, .is_random = true, .size_after = size_after};
}

ImageTransform make_random_affine(Arguments& arguments) {
  const NumberRange degrees = degrees_of(arguments);  // clockwise
  const std::vector<double> shares = arguments.numbers("translate", {0, 1}, {2});
  const Point most = shares.size() == 2 ? Point{shares[0], shares[1]} : Point{};
  const NumberRange scale = arguments.range("scale", {1e-6, 1e6}, {1, 1});
  const bool scales = arguments.has("scale");
  const std::vector<NumberRange> shears = arguments.angles("shear", {2, 4});
  const Interpolation interpolation = warp_interpolation(arguments, Interpolation::kNearest);
  const Color outside = arguments.color("fill");
  const std::optional<Point> center = center_of(arguments);
  const auto apply = [=](WorkImage& image, RandomSequence& random) {
    const double rotation = draw_between(degrees, random);
    Point translation{}, shear{};
    const Point pixels{most[0] * image.size.width, most[1] * image.size.height};
    for (std::size_t i = 0; i < 2; ++i)
      translation[i] = std::nearbyint(draw_between({-pixels[i], pixels[i]}, random));
    const double scaling = scales ? draw_between(scale, random) : 1;
    for (std::size_t i = 0; i < shears.size(); ++i) shear[i] = draw_between(shears[i], random);
    const Point middle = center.value_or(middle_of(image.size));
    warp(image, image.size, inverse_of(rotation, translation, scaling, shear, middle),
         interpolation, outside);
  };
  return {.apply = apply, .is_random = true};
}

ImageTransform make_random_perspective(Arguments& arguments) {
  const double distortion = arguments.number("distortion_scale", {0, 1}, 0.5);
  const double probability = arguments.number("p", {0, 1}, 0.5);
  const Interpolation interpolation = warp_interpolation(arguments, Interpolation::kBilinear);
  const Color outside = arguments.color("fill");
  const auto apply = [=](WorkImage& image, RandomSequence& random) {
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
  };
  return {.apply = apply, .is_random = true};
}

}  // namespace kiln
