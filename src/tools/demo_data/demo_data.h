// Synthetic labeled images to try the program with, written as class folders.
#pragma once

#include <cstdint>
#include <string_view>

#include "cli/run_config.h"
#include "data/image/image.h"

namespace kiln {

constexpr int kMaxDemoClasses = 10;

// "circle", "square", …; 0 <= shape < kMaxDemoClasses.
std::string_view demo_class_name(int shape);

// A pure function of its arguments: position, size, rotation, colors and noise are drawn from
// (seed, shape, index).
Image draw_demo_image(int shape, int size, std::uint64_t seed, std::uint64_t index);

struct DemoCounts {
  int train = 0, valid = 0;
};

// The demo data on disk: `train/<class>/0000.jpg`, `val/<class>/0000.png`, …; JPEG and PNG
// alternate; four fifths are for training. Throws Error kFailedToWriteOutputs unless the folder is
// missing or empty (names that start with a dot, and lost+found, are ignored), and if it cannot be
// written. Every class gets at least one image for training and one for validation.
DemoCounts write_demo_data(const DemoDataConfig& config);

}  // namespace kiln
