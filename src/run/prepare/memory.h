// Whether a run has enough memory, and if not, which batch size would fit: by the plan, before the
// first step, and by what the first step took. The kernel does not refuse memory but kills the
// process without a message.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "model/image_model.h"
#include "parallel/device/device.h"
#include "parallel/ranks/world.h"

namespace kiln {

struct PixelPlan;

struct StepSize {
  int height = 0, width = 0;  // of the images, in pixels
  int batch_size = 1;
  bool is_backward = true;  // false: only forward, as in validation or for a frozen backbone
  bool is_half = false;     // feature maps of 16 bits
};

// The least bytes that the images and feature maps of a step take: height x width x batch size x
// (the image, and ImageModel::kept()). Peak memory of training on a CPU, batches of 8 against 32,
// was 1.13 (densenet121) to 1.70 (resnet18) times as much, at 64, 128 and 224 pixels alike.
double least_step_bytes(const Kept& kept, const StepSize& step);

// A step takes at most about this many times as much. For advice: what is said to fit should.
inline constexpr double kMostToLeast = 2;

// What a step of one rank needs, and what it can have.
struct StepNeed {
  Kept kept = {};  // by the network
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

// The images of a rank's batch with --batch-size auto, if each takes `image_bytes` of `bytes`: 16,
// or as many more up to 256, in powers of two, as fit and leave 100 steps of an epoch's `images`.
// Of fewer than 32 half, an even number, of which any two can be mixed. 0: how many is not known.
int automatic_batch(double images, double image_bytes, double bytes);
// The same on a device, of whose memory in all, not of what is free now, half is taken; none on
// CPUs, and without a model. `size`: of the images.
int automatic_batch(const Device& device, const ImageModel* model, const World& world,
                    ImageSize size, double images);

// Throws Error kModuleOutOfMemory for steps in training or validation that cannot fit: on a CPU
// into this rank's share of the available memory, on a GPU into its free memory. Swap space does
// not count. Adds a warning for those that may not fit. `step`: of training, without the size of
// its images.
void check_step_memory(const Device& device, const ImageModel& model, const World& world,
                       const PixelPlan& pixels, StepSize step, std::vector<std::string>& warnings);

// The memory use of one of the ranks that share a host, in bytes.
struct MemoryUse {
  long long before = 0;     // resident size before the first step
  long long peak = 0;       // peak resident size up to the end of the first step
  long long available = 0;  // left after the first step, for all ranks of the host together
  long long to_come = 0;    // known future use: caches, copies of the weights
  int ranks_on_host = 1;
  int batch_size = 1;
  bool on_gpu = false;  // steps use GPU memory, so no fitting batch size is known
};

// The memory that a rank should have left after its first step: `to_come`, plus a tenth of its peak
// for what is unknown (validation, fragmentation).
long long memory_needed(const MemoryUse& use);

// The largest batch size of this rank with which memory_needed() would be left; 0 if none or
// unknown. Assumes that the memory taken by the first step, from `before` to `peak`, is
// proportional to the batch. Gradients and optimizer state are not, so this is an upper bound.
int batch_that_fits(const MemoryUse& use);

// One sentence if less than memory_needed() is left; otherwise empty.
std::string memory_warning(const MemoryUse& use);

// Watches a run's memory. One thread.
class MemoryWatch {
 public:
  // Create it before the first step. `plan` sets to_come, ranks_on_host, batch_size and on_gpu.
  explicit MemoryWatch(const MemoryUse& plan);

  // Call after each step. Returns memory_warning() after the first, otherwise empty.
  std::string after_step();

  // If `failure` means that memory ran out, an Error kModuleOutOfMemory that also says which batch
  // size may fit. Other failures are returned unchanged.
  std::exception_ptr advised(const std::exception_ptr& failure) const;

 private:
  MemoryUse use_;
  bool has_stepped_ = false;
};

}  // namespace kiln
