// The memory of a training step, estimated from the network's shape before anything is allocated.
// Does not depend on LibTorch.
#pragma once

#include "model/catalogue.h"

namespace kiln {

struct StepSize {
  int height = 0, width = 0;  // of the images, in pixels
  int batch_size = 1;
  bool is_backward = true;        // false: only forward, as in validation or for a frozen backbone
  bool is_half = false;           // feature maps of 16 bits
  bool memory_efficient = false;  // a DenseNet that recomputes its joined features
};

// The least bytes that the images and feature maps of a step take: height x width x batch size x
// (the image, and the numbers that backward keeps for each pixel, from torchvision's resnet.py and
// densenet.py). Peak memory of training on a CPU, batches of 8 against 32, was 1.15 (densenet121)
// to 1.85 (resnet18) times as much, at 64, 128 and 224 pixels alike (tests/model/step_memory_test).
double least_step_bytes(const KnownNetwork& network, const StepSize& step);

// A step takes at most about this many times as much. For advice: what is said to fit should.
inline constexpr double kMostToLeast = 2;

}  // namespace kiln
