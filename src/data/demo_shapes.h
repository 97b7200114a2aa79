// Labelled images to try things with: one large coloured shape on a noisy ground, the label being
// the shape.
#pragma once

#include <cstdint>
#include <string_view>

#include "data/image.h"

namespace kiln {

constexpr int kMaxDemoClasses = 10;

// "circle", "square", …; 0 <= shape < kMaxDemoClasses.
std::string_view demo_class_name(int shape);

// A pure function of its arguments: place, size, turn, colours and noise are drawn from (seed,
// shape, index).
Image draw_demo_image(int shape, int size, std::uint64_t seed, std::uint64_t index);

}  // namespace kiln
