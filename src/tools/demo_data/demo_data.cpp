#include "tools/demo_data/demo_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/output_folder.h"
#include "base/random.h"
#include "base/text.h"
#include "tools/commands.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, kMaxDemoClasses> kNames = {
    "circle", "square", "triangle", "cross", "ring", "star", "bars", "moon", "frame", "checker"};
constexpr int kOversampling = 4;  // samples of a pixel, across and down
// A bright shape on a dark background, so that a small network learns it from a thousand images.
constexpr int kGroundBelow = 80;
constexpr int kInkFrom = 140;
constexpr int kJpegQuality = 92;

// A point in a shape's own frame, in units of its radius; y points down.
struct Point {
  double x, y;
};

bool in_disc(Point point, Point center, double radius) {
  const double x = point.x - center.x, y = point.y - center.y;
  return std::sqrt(x * x + y * y) < radius;
}

bool in_box(Point point, Point low, Point high) {
  return point.x >= low.x && point.x < high.x && point.y >= low.y && point.y < high.y;
}

// With corners on the unit circle, one of them at the top: each edge is half a radius from the
// center, across from a corner.
bool in_triangle(Point point) {
  for (int corner = 0; corner < 3; ++corner) {
    const double angle = (2.0 / 3 * corner - 0.5) * std::numbers::pi;
    if (point.x * std::cos(angle) + point.y * std::sin(angle) < -0.5) return false;
  }
  return true;
}

// With five tips, one of them at the top. All ten halves of a tip are the same triangle, between
// the center, a tip and an inner corner.
bool in_star(Point point) {
  constexpr double kTip = 1.1, kInner = 0.45, kHalf = std::numbers::pi / 5;
  const double angle = std::abs(std::remainder(std::atan2(point.x, -point.y), 2 * kHalf));
  const double radius = std::sqrt(point.x * point.x + point.y * point.y);
  const double inner_x = kInner * std::cos(kHalf), inner_y = kInner * std::sin(kHalf);
  const double x = radius * std::cos(angle), y = radius * std::sin(angle);
  return (inner_x - kTip) * y - inner_y * (x - kTip) > 0;
}

// Whether a shape, about as large as the unit circle, covers the point.
bool covers(int shape, Point point) {
  constexpr double kHalf = 0.85;  // half the side of a square with about the unit circle's area
  const auto [x, y] = point;
  switch (shape) {
    case 0:
      return in_disc(point, {0, 0}, 1);
    case 1:
      return in_box(point, {-kHalf, -kHalf}, {kHalf, kHalf});
    case 2:
      return in_triangle(point);
    case 3:
      return in_box(point, {-1, -0.3}, {1, 0.3}) || in_box(point, {-0.3, -1}, {0.3, 1});
    case 4:
      return in_disc(point, {0, 0}, 1) && !in_disc(point, {0, 0}, 0.55);
    case 5:
      return in_star(point);
    case 6:
      return std::ranges::any_of(std::array{-0.95, -0.2, 0.55}, [&](double top) {
        return in_box(point, {-1, top}, {1, top + 0.4});
      });
    case 7:
      return in_disc(point, {0, 0}, 1) && !in_disc(point, {0.5, 0}, 0.85);
    case 8:
      return in_box(point, {-0.9, -0.9}, {0.9, 0.9}) && !in_box(point, {-0.5, -0.5}, {0.5, 0.5});
    case 9:
      return in_box(point, {-0.95, -0.95}, {0.95, 0.95}) && (x < 0) == (y < 0);
    default:
      throw InternalError("unknown demo shape");
  }
}

// Where a shape lies in an image: center and radius in pixels, turned by an angle.
struct Placement {
  Point center;
  double radius, turn;

  // The share of a pixel that the shape covers, from 0 to 255.
  int share_of_pixel(int shape, int pixel_x, int pixel_y) const {
    const double cosine = std::cos(turn) / radius, sine = std::sin(turn) / radius;
    int inside = 0;
    for (int down = 0; down < kOversampling; ++down) {
      for (int across = 0; across < kOversampling; ++across) {
        const double x = pixel_x + (across + 0.5) / kOversampling - center.x;
        const double y = pixel_y + (down + 0.5) / kOversampling - center.y;
        if (covers(shape, {cosine * x + sine * y, cosine * y - sine * x})) ++inside;
      }
    }
    return inside * 255 / (kOversampling * kOversampling);
  }
};

using Color = std::array<int, 3>;

Color draw_color(RandomSequence& random, int low, int high) {
  Color color;
  for (int& channel : color) channel = low + static_cast<int>(random.below(high - low));
  return color;
}

double between(RandomSequence& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

DurableFile complete_image(const fs::path& folder, int shape, int index, int number,
                           const DemoDataConfig& config) {
  const Image image = draw_demo_image(shape, config.size, config.random_seed, index);
  const bool as_jpeg = number % 2 == 0;
  const std::string name = formatted("%04d.%s", number, as_jpeg ? "jpg" : "png");
  return complete_file(folder / name,
                       as_jpeg ? encode_jpeg(image, kJpegQuality) : encode_png(image));
}

}  // namespace

std::string_view demo_class_name(int shape) {
  return kNames.at(shape);
}

Image draw_demo_image(int shape, int size, std::uint64_t seed, std::uint64_t index) {
  RandomSequence random({seed, static_cast<std::uint64_t>(shape), index});
  const Color ground = draw_color(random, 0, kGroundBelow);
  const Color ink = draw_color(random, kInkFrom, 256);

  const double radius = size * between(random, 0.28, 0.4);
  const double x = size * between(random, 0.43, 0.57), y = size * between(random, 0.43, 0.57);
  const Placement placement{{x, y}, radius, between(random, -0.2, 0.2)};

  Image image{.size = {.height = size, .width = size}, .pixels = {}};
  image.pixels.reserve(static_cast<std::size_t>(size) * size * 3);
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column) {
      const int share = placement.share_of_pixel(shape, column, row);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const int noise = static_cast<int>(random.below(25)) - 12;
        const int value = (ink[channel] * share + ground[channel] * (255 - share)) / 255 + noise;
        image.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0, 255)));
      }
    }
  }
  return image;
}

DemoCounts write_demo_data(const DemoDataConfig& config) {
  const fs::path folder = config.output_path;
  const OutputFolder output(folder);
  output.require_empty();
  std::vector<DurableFile> files;
  DemoCounts counts;
  for (int shape = 0; shape < config.classes; ++shape) {
    const bool takes_rest = shape < config.images % config.classes;
    const int total = std::max(2, config.images / config.classes + (takes_rest ? 1 : 0));
    const int num_train = std::min(total - 1, std::max(1, total * 4 / 5));
    const std::string name(demo_class_name(shape));
    make_folders(folder / "train" / name);
    make_folders(folder / "val" / name);
    for (int i = 0; i < num_train; ++i)
      files.push_back(complete_image(folder / "train" / name, shape, i, i, config));
    for (int i = num_train; i < total; ++i)
      files.push_back(complete_image(folder / "val" / name, shape, i, i - num_train, config));
    counts.train += num_train;
    counts.valid += total - num_train;
  }
  output.replace(std::move(files), {});
  return counts;
}

int run(const DemoDataConfig& config, Process& process) {
  const DemoCounts counts = write_demo_data(config);
  const fs::path folder(config.output_path);
  process.log.info(formatted("Generated %d images of %dx%d pixels in %d classes.",
                             counts.train + counts.valid, config.size, config.size,
                             config.classes));
  process.log.info(formatted("Wrote %d training images to '", counts.train) +
                   (folder / "train").string() +
                   formatted("' and %d validation images to '", counts.valid) +
                   (folder / "val").string() + "'.");
  return 0;
}

}  // namespace kiln
