// The configurations of `kiln bench loader` and `kiln bench step`.
#pragma once

#include <optional>
#include <string>

#include "record/augment_set.h"
#include "record/vocabulary.h"

namespace kiln {

struct BenchLoaderConfig {
  std::string data;
  int read_threads = 0;  // 0: auto
  int size = 224;
  Augment augment = Augment::kStandard;
  int threads = 0;  // 0: auto
  int batch_size = 64;
  int passes = 3;
  int read_ahead = 0;  // 0: auto
  int step_ms = 0;
};

struct BenchStepConfig {
  std::string model_name = "resnet18";
  int batch_size = 64;
  int size = 224;
  int classes = 1000;
  bool inference = false;  // measures only the forward pass of a trained model
  std::optional<Precision> precision = Precision::kFp32;  // empty: auto
  int steps = 20;
  DeviceChoice device = DeviceChoice::kAuto;
  int threads = 0;  // 0: auto
};

}  // namespace kiln
