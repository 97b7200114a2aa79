// Refuses a plan whose steps cannot fit into memory, before the first one: the kernel would kill
// the process without a word.
#pragma once

#include <string>

#include "model/step_memory.h"
#include "run/prepare/prepare.h"

namespace kiln {

// What a step of one rank needs, and what it can have.
struct StepNeed {
  std::string network = {};
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
// not count. Adds a warning to the inputs' notes for those that may not fit.
void check_step_memory(TrainingJob& job);

}  // namespace kiln
