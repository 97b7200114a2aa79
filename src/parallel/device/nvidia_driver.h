// Queries NVIDIA's libraries about a machine's GPUs, loading them at run time: the driver
// (libcuda), and the management library (NVML) for utilization and power.
#pragma once

#include <dlfcn.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/training_record.h"

namespace kiln {

// Functions of libraries loaded at run time.

// nullptr if `library`, a handle from dlopen, has no such symbol.
template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// What the NVIDIA driver reports, queried through dlopen so that no driver is needed to build or
// run.
struct NvidiaDriver {
  bool device_files = false;  // /dev/nvidiactl or /proc/driver/nvidia/version is there
  bool library = false;       // libcuda.so.1 could be opened and is no stub of the CUDA toolkit
  std::string version;        // "580.65.06", by NVML, else by the kernel; empty when unknown
  int cuda_version = 0;       // 13000 for CUDA 13.0, the newest it runs; 0 when unknown
  int num_devices = 0;        // visible to this process
  std::string fault;          // why the library could not count or describe devices
  std::vector<std::string>
      uuids;      // [num_devices], "GPU-…" or "MIG-…" as in nvidia-smi -L, or empty
  int index = 0;  // of the device for this process; the next two are of it
  std::string name;
  int capability_major = 0, capability_minor = 0;
};

// The device for this process is the only one, or the one at its local rank (modulo their number).
// Never throws: unknown values stay empty. The driver's threads take no signals.
NvidiaDriver ask_nvidia_driver(int local_rank = 0);

// How busy a GPU is and what power it draws, as reported by NVIDIA's management library (NVML).

// Measures nothing where the library or the GPU is not there, or will not tell. One thread.
class GpuMeter {
 public:
  explicit GpuMeter(const std::string& uuid);  // "GPU-…"; empty: no GPU
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  // Takes about 10 microseconds.
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
