// What the NVIDIA driver says, asked through dlopen so that no driver is needed to build or to run.
#pragma once

#include <string>

namespace kiln {

struct NvidiaDriver {
  bool device_files = false;  // /dev/nvidiactl or /proc/driver/nvidia is there
  bool library = false;       // libcuda.so.1 could be opened
  std::string version;        // "580.65.06", empty when unknown
  int num_devices = 0;        // visible to this process
  std::string fault;          // why the library could not count devices
  std::string name;           // of the first visible device
  int capability_major = 0, capability_minor = 0;
};

NvidiaDriver ask_nvidia_driver();

}  // namespace kiln
