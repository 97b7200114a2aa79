#include "parallel/nvidia_driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <fstream>
#include <regex>

namespace kiln {
namespace {

// Values of the CUDA driver API (cuda.h), which is stable by contract.
constexpr int kNoDevice = 100;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

std::string kernel_driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string text;
  std::getline(file, text);
  std::smatch match;
  return std::regex_search(text, match, std::regex(R"((\d{3,}\.\d+(\.\d+)?))")) ? match[1].str()
                                                                                : "";
}

void count_devices(void* library, NvidiaDriver& driver) {
  auto* init = symbol<int(unsigned)>(library, "cuInit");
  auto* count = symbol<int(int*)>(library, "cuDeviceGetCount");
  auto* attribute = symbol<int(int*, int, int)>(library, "cuDeviceGetAttribute");
  auto* name = symbol<int(char*, int, int)>(library, "cuDeviceGetName");
  if (init == nullptr || count == nullptr || attribute == nullptr || name == nullptr) {
    driver.fault = "libcuda.so.1 lacks the functions of the CUDA driver";
    return;
  }
  int status = init(0);
  if (status == 0) status = count(&driver.num_devices);
  if (status == kNoDevice) driver.num_devices = 0;
  if (status != 0 && status != kNoDevice) {
    driver.fault = "the CUDA driver answers with error " + std::to_string(status);
    return;
  }
  if (driver.num_devices == 0) return;
  char text[256] = "";
  name(text, sizeof text, 0);
  driver.name = text;
  attribute(&driver.capability_major, kCapabilityMajor, 0);
  attribute(&driver.capability_minor, kCapabilityMinor, 0);
}

}  // namespace

NvidiaDriver ask_nvidia_driver() {
  NvidiaDriver driver;
  driver.device_files =
      ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/proc/driver/nvidia/version", F_OK) == 0;
  driver.version = kernel_driver_version();
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  driver.library = library != nullptr;
  if (driver.library) count_devices(library, driver);
  return driver;
}

}  // namespace kiln
