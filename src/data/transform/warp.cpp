#include "data/transform/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace kiln {
namespace {

// An image whose border pixels are repeated where an interpolation reaches beyond them.
class Source {
 public:
  explicit Source(const WorkImage& image)
      : pixels_(image.pixels.data()), width_(image.size.width), height_(image.size.height) {}

  // Also false for NaN.
  bool holds(double x, double y) const { return x >= 0 && x < width_ && y >= 0 && y < height_; }

  const std::uint8_t* at(int x, int y) const {
    const int column = std::clamp(x, 0, width_ - 1), row = std::clamp(y, 0, height_ - 1);
    return pixels_ + (static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
                      static_cast<std::size_t>(column)) *
                         3;
  }

 private:
  const std::uint8_t* pixels_;
  int width_, height_;
};

void take_nearest(const Source& source, double x, double y, std::uint8_t* rgb) {
  std::memcpy(rgb, source.at(static_cast<int>(x), static_cast<int>(y)), 3);
}

void take_bilinear(const Source& source, double x, double y, std::uint8_t* rgb) {
  const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
  const double dx = x - 0.5 - left, dy = y - 0.5 - top;
  const int column = static_cast<int>(left), row = static_cast<int>(top);
  const std::uint8_t* corners[] = {source.at(column, row), source.at(column + 1, row),
                                   source.at(column, row + 1), source.at(column + 1, row + 1)};
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

void take_bicubic(const Source& source, double x, double y, std::uint8_t* rgb) {
  const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
  const double dx = x - 0.5 - left, dy = y - 0.5 - top;
  const int column = static_cast<int>(left) - 1, row = static_cast<int>(top) - 1;
  for (int c = 0; c < 3; ++c) {
    double rows[4];
    for (int i = 0; i < 4; ++i)
      rows[i] = cubic(source.at(column, row + i)[c], source.at(column + 1, row + i)[c],
                      source.at(column + 2, row + i)[c], source.at(column + 3, row + i)[c], dx);
    rgb[c] = static_cast<std::uint8_t>(
        std::clamp(cubic(rows[0], rows[1], rows[2], rows[3], dy), 0.0, 255.0));
  }
}

template <typename Take>
void warp_with(const WorkImage& image, ImageSize to, const PlaneMap& map, const Color& outside,
               std::uint8_t* target, Take&& take) {
  const Source source(image);
  for (int row = 0; row < to.height; ++row) {
    const double y = row + 0.5;
    for (int column = 0; column < to.width; ++column, target += 3) {
      const double x = column + 0.5, depth = map.g * x + map.h * y + 1;
      const double from_x = (map.a * x + map.b * y + map.c) / depth;
      const double from_y = (map.d * x + map.e * y + map.f) / depth;
      if (source.holds(from_x, from_y))
        take(source, from_x, from_y, target);
      else
        std::memcpy(target, outside.data(), 3);
    }
  }
}

}  // namespace

void warp(WorkImage& image, ImageSize to, const PlaneMap& from, Interpolation interpolation,
          const Color& outside) {
  std::uint8_t* target = image.begin(to);
  if (interpolation == Interpolation::kBilinear)
    warp_with(image, to, from, outside, target, take_bilinear);
  else if (interpolation == Interpolation::kBicubic)
    warp_with(image, to, from, outside, target, take_bicubic);
  else
    warp_with(image, to, from, outside, target, take_nearest);
  image.replace(to);
}

// The motion is T C R S K C', where T translates, C moves the origin to the center, R rotates, S
// scales, K shears, and ' marks an inverse. The inverse of the motion is C K' S' R' C' T'; the
// determinant of K is 1.
PlaneMap inverse_of(const AffineMotion& motion, std::array<double, 2> center) {
  const auto radians = [](double degrees) { return degrees * std::numbers::pi / 180; };
  const double angle = radians(motion.angle);
  const double along_x = radians(motion.shear[0]), along_y = radians(motion.shear[1]);
  const double cosine = std::cos(angle - along_y) / std::cos(along_y);
  const double sine = std::sin(angle - along_y) / std::cos(along_y);
  const double slope = std::tan(along_x);
  PlaneMap map{.a = (std::cos(angle) - sine * slope) / motion.scale,
               .b = (std::sin(angle) + cosine * slope) / motion.scale,
               .d = -sine / motion.scale,
               .e = cosine / motion.scale};
  const double x = center[0] + motion.translation[0], y = center[1] + motion.translation[1];
  map.c = center[0] - map.a * x - map.b * y;
  map.f = center[1] - map.d * x - map.e * y;
  return map;
}

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

}  // namespace kiln
