// Synthetic labeled images to try the program with, written as class folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "data/image/image.h"

namespace kiln {

constexpr int kMaxDemoClasses = 10;

// "circle", "square", …; 0 <= shape < kMaxDemoClasses.
std::string_view demo_class_name(int shape);

// A pure function of its arguments: position, size, rotation, colors and noise are drawn from
// (seed, shape, index).
Image draw_demo_image(int shape, int size, std::uint64_t seed, std::uint64_t index);

// The demo data on disk: `train/<class>/0000.jpg`, `val/<class>/0000.png`, …; JPEG and PNG
// alternate.
struct DemoPlan {
  int num_images = 600;  // over all classes; four fifths for training
  int num_classes = 3;
  int size = 32;
  std::uint64_t seed = 1;
};

struct DemoCounts {
  int train = 0, valid = 0;
};

// Throws Error kFailedToWriteOutputs unless `folder` is missing or empty (names that start with a
// dot, and lost+found, are ignored), and if it cannot be written. Every class gets at least one
// image for training and one for validation.
DemoCounts write_demo_data(const std::filesystem::path& folder, const DemoPlan& plan);

}  // namespace kiln
