// Geometric transforms: rotation, affine and perspective maps, computed as in Pillow's
// Image.transform.
#pragma once

#include <array>

#include "data/transform/image_transform.h"

namespace kiln {

// The middle (x, y) of a pixel of the result comes from
//   ((a x + b y + c) / (g x + h y + 1), (d x + e y + f) / (g x + h y + 1)) of the image.
struct PlaneMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0, g = 0, h = 0;
};

// `to` is the size of the result. Pixels from outside the image become `outside`. Interpolation is
// nearest, bilinear or bicubic, without antialiasing if the result is smaller.
void warp(WorkImage& image, ImageSize to, const PlaneMap& from, Interpolation interpolation,
          const Color& outside);

// Translates by whole pixels (x, y), scales, shears and rotates around `center` (x, y); angles in
// degrees, clockwise. As torchvision's affine.
struct AffineMotion {
  double angle = 0;
  std::array<double, 2> translation{};
  double scale = 1;
  std::array<double, 2> shear{};
};
PlaneMap inverse_of(const AffineMotion& motion, std::array<double, 2> center);

// Maps `ends` (in the result) to `starts` (in the image), four corners (x, y) each. Empty if three
// of them are collinear.
using Corners = std::array<std::array<double, 2>, 4>;
std::optional<PlaneMap> map_of_corners(const Corners& starts, const Corners& ends);

}  // namespace kiln
