// Stands in for the NVIDIA driver: built as libcuda.so.1 and as libnvidia-ml.so.1, it lets
// test_device.py show the real program any machine, and is the driver of the stand-in device
// (tests/gpu/fake). Only what kiln asks before it opens LibTorch's CUDA libraries is here, so the
// CUDA runtime itself finds no usable device.
//
//   KILN_STAND_IN_DRIVER_VERSION  "580.65.06"; without it NVML knows no driver
//   KILN_STAND_IN_CUDA_VERSION    13000
//   KILN_STAND_IN_DEVICES         1; CUDA_VISIBLE_DEVICES hides some
//   KILN_STAND_IN_CAPABILITY      80, for 8.0
//   KILN_STAND_IN_INIT_STATUS     0, what cuInit answers
//   KILN_STAND_IN_MIG             1: the devices are slices of a GPU, of which CUDA shows the first
//   KILN_STAND_IN_NVML_HANGS      1: asking a GPU's load never returns
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kOk = 0;
constexpr int kNoDevice = 100;
constexpr int kUnknownError = 999;
constexpr int kNvmlDriverNotLoaded = 9, kNvmlNotSupported = 3;
constexpr int kCapabilityMajor = 75;

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

bool is_sliced() {
  return setting("KILN_STAND_IN_MIG", 0) != 0;
}

// As CUDA counts: the devices before the first wrong number of CUDA_VISIBLE_DEVICES.
int num_visible() {
  if (is_sliced()) return 1;
  const int all = setting("KILN_STAND_IN_DEVICES", 1);
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return all;
  int count = 0;
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end, ++count) {
    const long device = std::strtol(text, &end, 10);
    if (end == text || device < 0 || device >= all) break;
  }
  return count;
}

int put(char* target, unsigned size, const char* text) {
  std::snprintf(target, size, "%s", text);
  return kOk;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = setting("KILN_STAND_IN_CUDA_VERSION", 13000);
  return kOk;
}

// The real one starts threads, which would take signals that are not blocked.
int cuInit(unsigned) {
  sigset_t blocked;
  if (::pthread_sigmask(SIG_SETMASK, nullptr, &blocked) != 0 ||
      ::sigismember(&blocked, SIGTERM) != 1)
    return kUnknownError;
  const int status = setting("KILN_STAND_IN_INIT_STATUS", kOk);
  return status == kOk && num_visible() == 0 ? kNoDevice : status;
}

int cuDeviceGetCount(int* count) {
  *count = num_visible();
  return kOk;
}

int cuDeviceGetName(char* name, int size, int) {
  return put(name, static_cast<unsigned>(size),
             is_sliced() ? "NVIDIA Stand-in GPU MIG 1g" : "NVIDIA Stand-in GPU");
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  std::memset(uuid, device + 1, 16);
  return kOk;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = setting("KILN_STAND_IN_CAPABILITY", 80);
  *value = attribute == kCapabilityMajor ? capability / 10 : capability % 10;
  return kOk;
}

int cuGetErrorString(int, const char** text) {
  *text = "said by the stand-in";
  return kOk;
}

int nvmlInit_v2() {
  return std::getenv("KILN_STAND_IN_DRIVER_VERSION") == nullptr ? kNvmlDriverNotLoaded : kOk;
}

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return put(version, size, std::getenv("KILN_STAND_IN_DRIVER_VERSION"));
}

int nvmlShutdown() {
  return kOk;
}

int nvmlDeviceGetHandleByUUID(const char*, void** device) {
  *device = nullptr;
  return kOk;
}

// As of a GPU that has fallen off the bus.
int nvmlDeviceGetUtilizationRates(void*, unsigned* percents) {
  while (setting("KILN_STAND_IN_NVML_HANGS", 0) != 0) ::pause();
  percents[0] = percents[1] = 40;
  return is_sliced() ? kNvmlNotSupported : kOk;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 123000;
  return kOk;
}

}  // extern "C"
