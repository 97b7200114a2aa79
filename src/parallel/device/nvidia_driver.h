// Queries NVIDIA's libraries about a machine's GPUs, loading them at run time: the driver
// (libcuda), and the management library (NVML) for utilization and power.
#pragma once

#include <dlfcn.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "record/training_record.h"

namespace kiln {

// Functions of libraries loaded at run time.

// nullptr if `library`, a handle from dlopen, has no such symbol.
template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// What the NVIDIA driver reports. The driver is loaded with dlopen, so none is needed to build or
// run.
struct NvidiaDriver {
  bool device_files = false;  // /dev/nvidiactl or /proc/driver/nvidia/version exists
  bool library = false;       // libcuda.so.1 could be opened and is not the CUDA toolkit's stub
  std::string version;        // "580.65.06", from NVML or else the kernel; empty when unknown
  int cuda_version = 0;       // newest supported CUDA version, 13000 for 13.0; 0 when unknown
  int num_devices = 0;        // visible to this process
  std::string fault;          // why the library could not count or describe the devices
  std::vector<std::string>
      uuids;      // [num_devices], "GPU-…" or "MIG-…" as in nvidia-smi -L, or empty
  int index = 0;  // of the device for this process, which the next fields describe
  std::string name;
  int capability_major = 0, capability_minor = 0;
  std::string pci_address;  // "0000:1b:00.0"; empty when unknown
};

// The device for this process is the only one, or number `local_rank` modulo the number of devices.
// Never throws: unknown values stay empty. Signals are blocked in the threads that the driver
// starts.
NvidiaDriver ask_nvidia_driver(int local_rank = 0);

// A GPU's utilization and power draw, as reported by NVIDIA's management library (NVML).

// Measures nothing if the library or the GPU is missing or does not report these values. One
// thread.
class GpuMeter {
 public:
  explicit GpuMeter(const std::string& uuid);  // "GPU-…"; empty: no GPU
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  // Takes about 10 microseconds.
  void sample();
  // The average of the samples since the last call; empty if there are none.
  std::optional<GpuLoad> take_average();

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  GpuLoad sum_;
  int num_samples_ = 0;
};

}  // namespace kiln
