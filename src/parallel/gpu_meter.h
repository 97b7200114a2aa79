// How busy a GPU is and what power it draws, as NVIDIA's management library (NVML) tells.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/training_record.h"

namespace kiln {

// Measures nothing where the library or the GPU is not there, or will not tell. One thread.
class GpuMeter {
 public:
  explicit GpuMeter(const std::string& uuid);  // "GPU-…"; empty: no GPU
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  // Takes some 10 microseconds.
  void sample();
  // Of the samples since the last call.
  std::optional<GpuLoad> take_average();

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  GpuLoad sum_;
  int num_samples_ = 0;
};

}  // namespace kiln
