#include "parallel/device/nvidia_driver.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
#include <array>
#include <cstdio>
#include <fstream>
#include <regex>
#include <string_view>
#include <utility>

namespace kiln {
namespace {

// Values from the CUDA driver API (cuda.h), whose ABI is stable by contract.
constexpr int kStubLibrary = 34;  // the toolkit's libcuda.so.1, which is for linking only
constexpr int kNoDevice = 100;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

// Uses declarations from nvml.h. NVML does not need CUDA, and it knows the version even if /proc
// does not show it (WSL).
std::string nvml_driver_version() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  auto* init = symbol<int()>(library, "nvmlInit_v2");
  auto* version = symbol<int(char*, unsigned)>(library, "nvmlSystemGetDriverVersion");
  auto* shutdown = symbol<int()>(library, "nvmlShutdown");
  if (init == nullptr || version == nullptr || shutdown == nullptr || init() != 0) return "";
  char text[80] = "";  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
  const bool known = version(text, sizeof text) == 0;
  shutdown();
  return known ? text : "";
}

std::string kernel_driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string text;
  std::getline(file, text);
  std::smatch match;
  return std::regex_search(text, match, std::regex(R"((\d{3,}\.\d+(\.\d+)?))")) ? match[1].str()
                                                                                : "";
}

std::string describe_status(void* library, int status) {
  auto* explain = symbol<int(int, const char**)>(library, "cuGetErrorString");
  const char* text = nullptr;
  if (explain != nullptr && explain(status, &text) != 0) text = nullptr;
  return "the CUDA driver returned error " + std::to_string(status) +
         (text == nullptr ? "" : " (" + std::string(text) + ")");
}

// The index of a device is also its handle. cuDeviceGetUuid_v2 distinguishes the MIG instances of a
// GPU.
std::string device_uuid(void* library, int device) {
  using Uuid = std::array<unsigned char, 16>;
  auto* ask = symbol<int(Uuid*, int)>(library, "cuDeviceGetUuid_v2");
  if (ask == nullptr) ask = symbol<int(Uuid*, int)>(library, "cuDeviceGetUuid");
  Uuid bytes{};
  if (ask == nullptr || ask(&bytes, device) != 0) return "";
  auto* name = symbol<int(char*, int, int)>(library, "cuDeviceGetName");
  char model[256] = "";
  const bool is_mig = name != nullptr && name(model, sizeof model, device) == 0 &&
                      std::string_view(model).find(" MIG ") != std::string_view::npos;
  std::string text = is_mig ? "MIG-" : "GPU-";  // "NVIDIA H200 MIG 1g.18gb"
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex.data();
  }
  return text;
}

int describe_device(void* library, NvidiaDriver& driver) {
  auto* attribute = symbol<int(int*, int, int)>(library, "cuDeviceGetAttribute");
  auto* name = symbol<int(char*, int, int)>(library, "cuDeviceGetName");
  char text[256] = "";
  int status = name(text, sizeof text, driver.index);
  if (status == 0) status = attribute(&driver.capability_major, kCapabilityMajor, driver.index);
  if (status == 0) status = attribute(&driver.capability_minor, kCapabilityMinor, driver.index);
  driver.name = text;
  auto* address = symbol<int(char*, int, int)>(library, "cuDeviceGetPCIBusId");
  if (address != nullptr && address(text, sizeof text, driver.index) == 0)
    driver.pci_address = text;
  return status;
}

void ask_cuda(void* library, int local_rank, NvidiaDriver& driver) {
  auto* version = symbol<int(int*)>(library, "cuDriverGetVersion");
  auto* init = symbol<int(unsigned)>(library, "cuInit");
  auto* count = symbol<int(int*)>(library, "cuDeviceGetCount");
  for (const char* name : {"cuDriverGetVersion", "cuInit", "cuDeviceGetCount",
                           "cuDeviceGetAttribute", "cuDeviceGetName"})
    if (::dlsym(library, name) == nullptr) {
      driver.fault = "libcuda.so.1 is missing the function " + std::string(name);
      return;
    }
  if (version(&driver.cuda_version) != 0) driver.cuda_version = 0;
  int status = init(0);
  driver.library = status != kStubLibrary;
  if (status == kStubLibrary || status == kNoDevice) return;
  if (status == 0) status = count(&driver.num_devices);
  if (status == 0 && driver.num_devices > 0) {
    driver.index = local_rank % driver.num_devices;
    for (int device = 0; device < driver.num_devices; ++device)
      driver.uuids.push_back(device_uuid(library, device));
    status = describe_device(library, driver);
  }
  if (status != 0 && status != kNoDevice) driver.fault = describe_status(library, status);
}

// Blocks all signals in this thread for its lifetime. Threads started meanwhile inherit the mask
// and keep it: otherwise a signal delivered to a thread of the driver would take its default
// action, even if the program's own threads block it.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

constexpr double kMilliwatts = 1000;

}  // namespace

NvidiaDriver ask_nvidia_driver(int local_rank) {
  const NoSignals while_threads_start;
  NvidiaDriver driver;
  driver.device_files =
      ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/proc/driver/nvidia/version", F_OK) == 0;
  driver.version = nvml_driver_version();
  if (driver.version.empty()) driver.version = kernel_driver_version();
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  driver.library = library != nullptr;
  if (driver.library) ask_cuda(library, local_rank, driver);
  return driver;
}

// Signatures and structs from nvml.h, whose ABI is stable by contract.
struct GpuMeter::Library {
  struct Utilization {
    unsigned gpu = 0, memory = 0;  // percent
  };
  using Handle = void*;

  // Returns nullptr if the GPU cannot be measured.
  static std::unique_ptr<Library> open(const std::string& uuid) {
    void* file = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return nullptr;
    auto* init = symbol<int()>(file, "nvmlInit_v2");
    auto* find = symbol<int(const char*, Handle*)>(file, "nvmlDeviceGetHandleByUUID");
    auto library = std::make_unique<Library>();
    library->utilization = symbol<int(Handle, Utilization*)>(file, "nvmlDeviceGetUtilizationRates");
    library->power = symbol<int(Handle, unsigned*)>(file, "nvmlDeviceGetPowerUsage");
    const bool whole = init != nullptr && find != nullptr && library->utilization != nullptr &&
                       library->power != nullptr;
    if (!whole || init() != 0 || find(uuid.c_str(), &library->device) != 0) return nullptr;
    return library;
  }

  Handle device = nullptr;
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
};

GpuMeter::GpuMeter(const std::string& uuid) {
  if (!uuid.empty()) library_ = Library::open(uuid);
}
GpuMeter::~GpuMeter() = default;

void GpuMeter::sample() {
  Library::Utilization utilization;
  unsigned milliwatts = 0;
  if (!library_ || library_->utilization(library_->device, &utilization) != 0 ||
      library_->power(library_->device, &milliwatts) != 0)
    return;
  sum_.utilization_percent += utilization.gpu;
  sum_.power_watts += milliwatts / kMilliwatts;
  ++num_samples_;
}

std::optional<GpuLoad> GpuMeter::take_average() {
  if (num_samples_ == 0) return std::nullopt;
  const GpuLoad sum = std::exchange(sum_, {});
  const int count = std::exchange(num_samples_, 0);
  return GpuLoad{sum.utilization_percent / count, sum.power_watts / count};
}

}  // namespace kiln
