// Selects the device that this process computes on. GPU support is in a module, libkiln_cuda.so
// next to the program, which is loaded only if an NVIDIA driver is present. LibTorch caches its
// CUDA hooks at the first call into it, so `choose_device` must run before any other use of
// LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "modules/cuda/module.h"
#include "record/training_record.h"
#include "record/vocabulary.h"

namespace kiln {

struct Device {
  bool is_cuda = false;
  int index = 0;
  int capability = 0;  // compute capability times ten: 90 for 9.0; 0 on a CPU
  // "CPU (no NVIDIA device found)", "NVIDIA H200, compute capability 9.0, driver 580.65.06, CUDA
  // 13.0"
  std::string description = {};
  std::string uuid = {};  // "GPU-…" or "MIG-…"; empty when unknown, and on a CPU
  std::vector<std::string> visible_uuids = {};  // of all GPUs visible to this process
  int numa_node = -1;                           // of the GPU; -1 when unknown, and on a CPU
};

// The NUMA node that a PCI device, such as "0000:1b:00.0", is attached to; -1 when unknown.
int numa_node_of(const std::string& pci_address, const std::filesystem::path& sysfs = "/sys");

// kAuto chooses the CPU only if no NVIDIA device is present. Throws Error
// kFailedToCompleteOperation if a device is present but unusable (driver, compute capability,
// library, module, CUDA runtime), or for kCuda without a device; the message says what was found,
// what is needed, and the remedy. For a GPU, the module is loaded and the CUDA runtime initialized
// on it. kCpu does not query the driver. A process that sees a single GPU uses it; otherwise it
// uses GPU number `local_rank` modulo the number of GPUs. Whether every rank has a GPU of its own
// is checked by find_gpu_problems(), once all ranks have chosen.
Device choose_device(DeviceChoice wish, int local_rank = 0);

// Peak GPU memory of this process, in bytes; 0 on a CPU.
long long peak_device_memory(const Device& device);

// Pinned host memory, so that copies to the GPU overlap with its work. Allocates exactly `bytes`,
// whereas LibTorch's allocator rounds up to a power of two. Any thread. Throws Error
// kModuleOutOfMemory.
std::shared_ptr<std::uint8_t[]> pinned_memory(const Device& device, std::size_t bytes);

// Versions reported by the loaded libraries, for `kiln --version`; empty if a library is missing.
struct CudaVersions {
  std::string cuda, cudnn, nccl;
};
CudaVersions cuda_versions();

// Loads libkiln_cuda.so, the GPU module next to the program, on the first call. It stays loaded for
// the life of the process, since LibTorch's hooks point into it. Returns nullptr if the module is
// not there, cannot be loaded or is from a different build, and sets `fault` to a clause that says
// so and what to do.
const CudaModule* open_cuda_module(std::string* fault);

// Checks that each rank of a job has its own GPU. Pure functions of what each rank found, gathered
// from all ranks and indexed by rank.
struct RankDevice {
  std::string host = {};
  bool is_cuda = false;
  std::string chosen = {};                // UUID of the GPU it computes on; empty when unknown
  std::vector<std::string> visible = {};  // UUIDs of those it sees; empty strings when unknown
};

void visit_fields(Is<RankDevice> auto& device, auto&& field) {
  fields(field, "host", device.host, "is_cuda", device.is_cuda, "chosen", device.chosen, "visible",
         device.visible);
}

// All reasons why these ranks cannot train together, each Error kUserError (exit code 1): more
// ranks on a host than GPUs (the distinct UUIDs that its ranks see); two ranks on one GPU; a mix of
// CPU and GPU ranks. Empty if all ranks are on CPUs. With `may_share` only the mix is a problem.
Problems find_gpu_problems(const std::vector<RankDevice>& ranks, bool may_share = false);

// Whether KILN_SHARE_GPU is set: ranks may then share a GPU, which allows testing NCCL on a machine
// with a single GPU. Slow.
bool ranks_may_share_gpus();

// How many of the ranks of this host compute on the GPU of this one, by the rule of
// choose_device().
int ranks_on_gpu(const Device& device, int num_on_host);

// "2 of the 4 GPUs of host node7 are idle", one sentence per affected host.
std::vector<std::string> find_idle_gpus(const std::vector<RankDevice>& ranks);

// What the NVIDIA driver reports. Its libraries are loaded at run time, so none is needed to build
// or run.
struct NvidiaDriver {
  bool device_files = false;  // /dev/nvidiactl or /proc/driver/nvidia/version exists
  bool library = false;       // libcuda.so.1 could be opened and is not the CUDA toolkit's stub
  std::string version;        // "580.65.06", from NVML or else the kernel; empty when unknown
  int cuda_version = 0;       // newest supported CUDA version, 13000 for 13.0; 0 when unknown
  int num_devices = 0;        // visible to this process
  std::string fault;          // why the library could not count or describe the devices
  std::vector<std::string> uuids;  // [num_devices], as in nvidia-smi -L, or empty
  int index = 0;                   // of the device for this process, which the next fields describe
  std::string name;
  int capability_major = 0, capability_minor = 0;
  std::string pci_address;  // "0000:1b:00.0"; empty when unknown
};

// The device for this process is the only one, or number `local_rank` modulo the number of devices.
// Never throws: unknown values stay empty. Signals are blocked in the threads that the driver
// starts.
NvidiaDriver ask_nvidia_driver(int local_rank = 0);

// A GPU's utilization and power draw, as reported by NVIDIA's management library (NVML). Measures
// nothing if the library or the GPU is missing or does not report these values. Samples on a thread
// of its own, five times a second: NVML's utilization is that of its last moments. NVML can hang
// when a GPU has fallen off the bus: nothing waits for it then, and the thread is left behind.
class GpuMeter {
 public:
  explicit GpuMeter(const std::string& uuid);  // "GPU-…"; empty: no GPU
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  // The average of the samples since the last call; empty if there are none.
  std::optional<GpuLoad> take_average();

 private:
  struct Samples;
  // Runs in the thread.
  static void sample(Samples& samples, const std::string& uuid, const std::stop_token& stop);

  std::shared_ptr<Samples> samples_;
  std::stop_source stop_;
  std::future<void> ended_;  // of the thread; not valid: there is none
};

}  // namespace kiln
