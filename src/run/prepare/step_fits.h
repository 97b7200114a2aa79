// Refuses a plan whose steps cannot fit into memory, before the first one: the kernel would kill
// the process without a word.
#pragma once

#include <string>
#include <vector>

#include "model/image_model.h"
#include "parallel/device/device.h"
#include "parallel/ranks/world.h"

namespace kiln {

struct Plan;

struct StepSize {
  int height = 0, width = 0;  // of the images, in pixels
  int batch_size = 1;
  bool is_backward = true;  // false: only forward, as in validation or for a frozen backbone
  bool is_half = false;     // feature maps of 16 bits
};

// The least bytes that the images and feature maps of a step take: height x width x batch size x
// (the image, and ImageModel::kept_numbers()). Peak memory of training on a CPU, batches of 8
// against 32, was 1.15 (densenet121) to 1.85 (resnet18) times as much, at 64, 128 and 224 pixels
// alike.
double least_step_bytes(double kept_numbers, const StepSize& step);

// A step takes at most about this many times as much. For advice: what is said to fit should.
inline constexpr double kMostToLeast = 2;

// What a step of one rank needs, and what it can have.
struct StepNeed {
  double kept_numbers = 0;  // of the network
  StepSize step = {};
  int least_batch = 1;           // that can be trained
  double free = 0;               // bytes, of this rank
  std::string size_option = {};  // what sets the images' size, such as "--image-size"
};

// Why the step cannot fit, and the batch size or the size of images that should; empty if it may.
// Compares the least that it takes (least_step_bytes()), so that nothing is refused that
// fits.
std::string step_fault(const StepNeed& need);

// The same for what a step may take (kMostToLeast). Empty if that fits.
std::string step_warning(const StepNeed& need);

// Throws Error kModuleOutOfMemory for steps in training or validation that cannot fit: on a CPU
// into this rank's share of the available memory, on a GPU into its free memory. Swap space does
// not count. Adds a warning for those that may not fit. Of the plan: pixels, batch size, recipe and
// whether it uses features.
void check_step_memory(const Device& device, const ImageModel& model, const World& world,
                       const Plan& plan, std::vector<std::string>& warnings);

}  // namespace kiln
