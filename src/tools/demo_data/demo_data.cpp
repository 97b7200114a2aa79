#include "tools/demo_data/demo_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/text.h"
#include "tools/commands.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, kMaxDemoClasses> kNames = {
    "circle", "square", "triangle", "cross", "ring", "star", "bars", "moon", "frame", "checker"};
constexpr int kOversampling = 4;
// A bright shape on a dark background, so that a small network learns it from a thousand images.
constexpr int kGroundBelow = 80;
constexpr int kInkFrom = 140;
constexpr int kJpegQuality = 92;

// The corners of a shape, in units of its radius.
using Outline = std::vector<cv::Point2d>;

Outline triangle() {
  Outline outline;
  for (int i = 0; i < 3; ++i) {
    const double angle = -std::numbers::pi / 2 + 2 * std::numbers::pi * i / 3;
    outline.emplace_back(std::cos(angle), std::sin(angle));
  }
  return outline;
}

Outline star() {
  Outline outline;
  for (int i = 0; i < 10; ++i) {
    const double angle = std::numbers::pi * (i / 5.0 - 0.5);
    const double radius = i % 2 == 0 ? 1.1 : 0.45;
    outline.emplace_back(radius * std::cos(angle), radius * std::sin(angle));
  }
  return outline;
}

Outline rectangle(double left, double top, double right, double bottom) {
  return {{left, top}, {right, top}, {right, bottom}, {left, bottom}};
}

// Draws coverage masks (255 inside); each shape has about the size of the unit circle times
// `radius`.
class ShapePainter {
 public:
  ShapePainter(cv::Mat& coverage, cv::Point2d center, double radius, double turn)
      : coverage_(coverage),
        center_(center),
        radius_(radius),
        cosine_(std::cos(turn)),
        sine_(std::sin(turn)) {}

  void paint(int shape) {
    constexpr double kHalf = 0.85;  // half the side of a square with about the unit circle's area
    switch (shape) {
      case 0:
        return disc({0, 0}, 1.0, 255);
      case 1:
        return polygon(rectangle(-kHalf, -kHalf, kHalf, kHalf), 255);
      case 2:
        return polygon(triangle(), 255);
      case 3:
        polygon(rectangle(-1.0, -0.3, 1.0, 0.3), 255);
        return polygon(rectangle(-0.3, -1.0, 0.3, 1.0), 255);
      case 4:
        return disc({0, 0}, 1.0, 255), disc({0, 0}, 0.55, 0);
      case 5:
        return polygon(star(), 255);
      case 6:
        for (const double top : {-0.95, -0.2, 0.55})
          polygon(rectangle(-1.0, top, 1.0, top + 0.4), 255);
        return;
      case 7:
        return disc({0, 0}, 1.0, 255), disc({0.5, 0}, 0.85, 0);
      case 8:
        polygon(rectangle(-0.9, -0.9, 0.9, 0.9), 255);
        return polygon(rectangle(-0.5, -0.5, 0.5, 0.5), 0);
      case 9:
        polygon(rectangle(-0.95, -0.95, 0.0, 0.0), 255);
        return polygon(rectangle(0.0, 0.0, 0.95, 0.95), 255);
      default:
        throw InternalError("unknown demo shape");
    }
  }

 private:
  cv::Point place(cv::Point2d point) const {
    const double x = cosine_ * point.x - sine_ * point.y;
    const double y = sine_ * point.x + cosine_ * point.y;
    return {cvRound(center_.x + radius_ * x), cvRound(center_.y + radius_ * y)};
  }
  void disc(cv::Point2d center, double radius, int value) {
    cv::circle(coverage_, place(center), cvRound(radius * radius_), cv::Scalar(value), cv::FILLED);
  }
  void polygon(const Outline& outline, int value) {
    std::vector<cv::Point> corners;
    for (const cv::Point2d& corner : outline) corners.push_back(place(corner));
    cv::fillPoly(coverage_, std::vector<std::vector<cv::Point>>{corners}, cv::Scalar(value));
  }

  cv::Mat& coverage_;
  cv::Point2d center_;
  double radius_, cosine_, sine_;
};

using Color = std::array<int, 3>;

Color draw_color(RandomSequence& random, int low, int high) {
  Color color;
  for (int& channel : color)
    channel = low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low)));
  return color;
}

double between(RandomSequence& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

void check_is_empty(const fs::path& folder) {
  std::error_code fault;
  auto entry = fs::directory_iterator(folder, fault);
  for (; !fault && entry != fs::directory_iterator(); entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || name == "lost+found") continue;
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "Output '" + folder.string() + "': it is not empty ('" + name +
                    "' is in it). Empty it or choose another output.");
  }
  if (!fault) return;
  throw Error(ErrorCode::kFailedToWriteOutputs, "Output '" + folder.string() +
                                                    "' cannot be read: " + fault.message() +
                                                    ". Choose another output.");
}

void write_image(const fs::path& folder, int shape, int index, int number, const DemoPlan& plan) {
  const Image image =
      draw_demo_image(shape, plan.size, plan.seed, static_cast<std::uint64_t>(index));
  const bool as_jpeg = number % 2 == 0;
  const std::string name = formatted("%04d.%s", number, as_jpeg ? "jpg" : "png");
  write_file_durably(folder / name, as_jpeg ? encode_jpeg(image, kJpegQuality) : encode_png(image));
}

}  // namespace

std::string_view demo_class_name(int shape) {
  return kNames.at(shape);
}

Image draw_demo_image(int shape, int size, std::uint64_t seed, std::uint64_t index) {
  RandomSequence random({seed, static_cast<std::uint64_t>(shape), index});
  const Color ground = draw_color(random, 0, kGroundBelow);
  const Color ink = draw_color(random, kInkFrom, 256);

  const double extent = size * kOversampling;
  const double radius = extent * between(random, 0.28, 0.4);
  const cv::Point2d center(extent * between(random, 0.43, 0.57),
                           extent * between(random, 0.43, 0.57));
  const double turn = between(random, -0.2, 0.2);
  cv::Mat large = cv::Mat::zeros(size * kOversampling, size * kOversampling, CV_8UC1);
  ShapePainter(large, center, radius, turn).paint(shape);
  cv::Mat coverage;
  cv::resize(large, coverage, cv::Size(size, size), 0, 0, cv::INTER_AREA);

  Image image{.size = {.height = size, .width = size}, .pixels = {}};
  image.pixels.reserve(static_cast<std::size_t>(size) * size * 3);
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const int share = coverage.at<std::uint8_t>(y, x);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const int noise = static_cast<int>(random.below(25)) - 12;
        const int value = (ink[channel] * share + ground[channel] * (255 - share)) / 255 + noise;
        image.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0, 255)));
      }
    }
  }
  return image;
}

DemoCounts write_demo_data(const fs::path& folder, const DemoPlan& plan) {
  make_folders(folder);
  check_is_empty(folder);
  DemoCounts counts;
  for (int shape = 0; shape < plan.num_classes; ++shape) {
    const bool takes_rest = shape < plan.num_images % plan.num_classes;
    const int total = std::max(2, plan.num_images / plan.num_classes + (takes_rest ? 1 : 0));
    const int num_train = std::min(total - 1, std::max(1, total * 4 / 5));
    const std::string name(demo_class_name(shape));
    make_folders(folder / "train" / name);
    make_folders(folder / "val" / name);
    for (int i = 0; i < num_train; ++i) write_image(folder / "train" / name, shape, i, i, plan);
    for (int i = num_train; i < total; ++i)
      write_image(folder / "val" / name, shape, i, i - num_train, plan);
    counts.train += num_train;
    counts.valid += total - num_train;
  }
  return counts;
}

int run(const DemoDataConfig& config, Process& process) {
  const DemoCounts counts =
      write_demo_data(config.output_path, {.num_images = config.images,
                                           .num_classes = config.classes,
                                           .size = config.size,
                                           .seed = static_cast<std::uint64_t>(config.random_seed)});
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
