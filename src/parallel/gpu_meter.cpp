#include "parallel/gpu_meter.h"

#include <dlfcn.h>

#include <utility>

#include "parallel/library_symbol.h"

namespace kiln {
namespace {

constexpr double kMilliwatts = 1000;

}  // namespace

// Signatures and structures as nvml.h gives them, which are stable by contract.
struct GpuMeter::Library {
  struct Utilisation {
    unsigned gpu = 0, memory = 0;  // percent
  };
  using Handle = void*;

  // nullptr: there is nothing to measure with.
  static std::unique_ptr<Library> open(const std::string& uuid) {
    void* file = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return nullptr;
    auto* init = symbol<int()>(file, "nvmlInit_v2");
    auto* find = symbol<int(const char*, Handle*)>(file, "nvmlDeviceGetHandleByUUID");
    auto library = std::make_unique<Library>();
    library->utilisation = symbol<int(Handle, Utilisation*)>(file, "nvmlDeviceGetUtilizationRates");
    library->power = symbol<int(Handle, unsigned*)>(file, "nvmlDeviceGetPowerUsage");
    const bool whole = init != nullptr && find != nullptr && library->utilisation != nullptr &&
                       library->power != nullptr;
    if (!whole || init() != 0 || find(uuid.c_str(), &library->device) != 0) return nullptr;
    return library;
  }

  Handle device = nullptr;
  int (*utilisation)(Handle, Utilisation*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
};

GpuMeter::GpuMeter(const std::string& uuid) {
  if (!uuid.empty()) library_ = Library::open(uuid);
}
GpuMeter::~GpuMeter() = default;

void GpuMeter::sample() {
  Library::Utilisation utilisation;
  unsigned milliwatts = 0;
  if (!library_ || library_->utilisation(library_->device, &utilisation) != 0 ||
      library_->power(library_->device, &milliwatts) != 0)
    return;
  sum_.utilisation_percent += utilisation.gpu;
  sum_.power_watts += milliwatts / kMilliwatts;
  ++num_samples_;
}

std::optional<GpuLoad> GpuMeter::take_average() {
  if (num_samples_ == 0) return std::nullopt;
  const GpuLoad sum = std::exchange(sum_, {});
  const int count = std::exchange(num_samples_, 0);
  return GpuLoad{sum.utilisation_percent / count, sum.power_watts / count};
}

}  // namespace kiln
