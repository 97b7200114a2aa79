#include "parallel/device/device.h"

#include <dlfcn.h>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "parallel/device/nvidia_driver.h"

namespace kiln {
namespace {

constexpr int kLeastDriver = 580;  // the first driver branch that supports CUDA 13
constexpr int kLeastCuda = 13000;
constexpr int kLeastCapability = 75;
constexpr const char* kNeeded = "this LibTorch needs driver 580 or newer (CUDA 13.0)";

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::kFailedToCompleteOperation, sentence + " Or use --device cpu.");
}

std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// "driver 570.86.10, CUDA 12.8", as far as known.
std::string describe(const NvidiaDriver& driver) {
  return "driver " + (driver.version.empty() ? "of unknown version" : driver.version) +
         (driver.cuda_version > 0 ? ", CUDA " + cuda_text(driver.cuda_version) : "");
}

std::string capability_text(const NvidiaDriver& driver) {
  return "compute capability " + std::to_string(driver.capability_major) + "." +
         std::to_string(driver.capability_minor);
}

// What libcuda says decides: with CUDA's forward-compatibility package it is newer than the
// kernel's driver, whose version is the other one.
bool too_old(const NvidiaDriver& driver) {
  if (driver.cuda_version > 0) return driver.cuda_version < kLeastCuda;
  return !driver.version.empty() && std::atoi(driver.version.c_str()) < kLeastDriver;
}

// Throws unless the driver and this process's device are usable. Does not check the GPU module.
void require_usable(const NvidiaDriver& driver) {
  if (too_old(driver))
    refuse("The NVIDIA driver is too old (" + describe(driver) + "); " + kNeeded +
           ": update the driver.");
  if (!driver.library)
    refuse("An NVIDIA device is present (" + describe(driver) +
           "), but the driver's library libcuda.so.1 is missing; " + kNeeded +
           ": install it, or start a container with --gpus all.");
  if (!driver.fault.empty())
    refuse("The NVIDIA driver cannot be used (" + describe(driver) + "): " + driver.fault + "; " +
           kNeeded + ": run nvidia-smi for details.");
  if (driver.capability_major * 10 + driver.capability_minor < kLeastCapability)
    refuse("The GPU '" + driver.name + "' has " + capability_text(driver) +
           ", but this LibTorch needs 7.5 or higher.");
}

// Loads the GPU module and initializes the CUDA runtime.
void require_module(const NvidiaDriver& driver) {
  const std::string gpu =
      "The GPU '" + driver.name + "' is present (" + describe(driver) + "), but ";
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  if (module == nullptr)
    refuse(gpu + "kiln's GPU module libkiln_cuda.so could not be loaded: " + fault + "; " +
           kNeeded + " and the module from the same build next to the program.");
  if (const char* refusal = module->device_fault(driver.index); refusal != nullptr)
    refuse(gpu + "CUDA " + cuda_text(module->runtime_version()) + " cannot use it: " + refusal +
           "; " + kNeeded + ": run nvidia-smi for details.");
}

std::string module_path() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libkiln_cuda.so")
      .string();
}

struct Host {
  std::vector<std::size_t> ranks;
  std::set<std::string> gpus;
  std::size_t most_seen =
      0;  // by one rank: a lower bound on the number of GPUs if UUIDs are unknown

  std::size_t num_gpus() const { return std::max(gpus.size(), most_seen); }
};

std::map<std::string, Host> by_host(const std::vector<RankDevice>& ranks) {
  std::map<std::string, Host> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].is_cuda) continue;
    Host& host = hosts[ranks[rank].host];
    host.ranks.push_back(rank);
    host.most_seen = std::max(host.most_seen, ranks[rank].visible.size());
    for (const std::string& gpu : ranks[rank].visible)
      if (!gpu.empty()) host.gpus.insert(gpu);
  }
  return hosts;
}

// "0 and 1", "0, 2 and 5", "0, 1, 2, … and 63"
std::string listed(const std::vector<std::size_t>& numbers) {
  std::string text = std::to_string(numbers.front());
  for (std::size_t i = 1; i + 1 < numbers.size(); ++i) {
    if (i == 8) {
      text += ", …";
      break;
    }
    text += ", " + std::to_string(numbers[i]);
  }
  if (numbers.size() > 1) text += " and " + std::to_string(numbers.back());
  return text;
}

std::string name_of(std::size_t rank, const std::vector<RankDevice>& ranks) {
  return "rank " + std::to_string(rank) + " on host " + ranks[rank].host;
}

void add(Problems& problems, const std::string& sentence) {
  problems.add(Error(ErrorCode::kUserError, sentence));
}

void find_shared_gpus(const std::vector<RankDevice>& ranks, Problems& problems) {
  std::set<std::string> crowded;
  for (const auto& [name, host] : by_host(ranks)) {
    if (host.ranks.size() <= host.num_gpus()) continue;
    crowded.insert(name);
    add(problems, "Process count per node (" + std::to_string(host.ranks.size()) +
                      ") is greater than the processing units (" + std::to_string(host.num_gpus()) +
                      ") on host " + name +
                      ": start at most one rank per GPU, or use --device cpu.");
  }
  std::map<std::string, std::vector<std::size_t>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].is_cuda && !ranks[rank].chosen.empty() && !crowded.contains(ranks[rank].host))
      users[ranks[rank].chosen].push_back(rank);
  for (const auto& [gpu, numbers] : users) {
    if (numbers.size() < 2) continue;
    add(problems, "Ranks " + listed(numbers) + " on host " + ranks[numbers.front()].host +
                      " share the same GPU (" + gpu +
                      "): set CUDA_VISIBLE_DEVICES so that each rank sees its own GPU or all GPUs "
                      "of the host.");
  }
}

void find_mixed_kinds(const std::vector<RankDevice>& ranks, Problems& problems) {
  const auto first = [&](bool cuda) {
    return std::find_if(ranks.begin(), ranks.end(),
                        [&](const RankDevice& rank) { return rank.is_cuda == cuda; });
  };
  const auto on_gpu = first(true), on_cpu = first(false);
  if (on_gpu == ranks.end() || on_cpu == ranks.end()) return;
  const auto number = [&](auto place) {
    return name_of(static_cast<std::size_t>(place - ranks.begin()), ranks);
  };
  add(problems, "The ranks use different kinds of devices: " + number(on_gpu) + " found a GPU, " +
                    number(on_cpu) + " has no GPU: give every rank a GPU, or use --device cpu.");
}

}  // namespace

Device choose_device(DeviceChoice wish, int local_rank) {
  if (wish == DeviceChoice::kCpu) return {.description = "CPU"};
  const NvidiaDriver driver = ask_nvidia_driver(local_rank);
  const bool present =
      driver.num_devices > 0 || !driver.fault.empty() || (driver.device_files && !driver.library);
  if (!present) {
    if (wish == DeviceChoice::kCuda)
      refuse(
          std::string("--device cuda is set, but no NVIDIA device is visible to this process; ") +
          kNeeded + ": check CUDA_VISIBLE_DEVICES, or start a container with --gpus all.");
    return {.description = "CPU (no NVIDIA device found)"};
  }
  require_usable(driver);
  require_module(driver);
  return {.is_cuda = true,
          .index = driver.index,
          .capability = driver.capability_major * 10 + driver.capability_minor,
          .description = driver.name + ", " + capability_text(driver) + ", " + describe(driver),
          .uuid = driver.uuids[static_cast<std::size_t>(driver.index)],
          .visible_uuids = driver.uuids,
          .numa_node = numa_node_of(driver.pci_address)};
}

int numa_node_of(const std::string& pci_address, const std::filesystem::path& sysfs) {
  if (pci_address.empty()) return -1;
  std::string folder = pci_address;
  for (char& letter : folder)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  std::ifstream file(sysfs / "bus/pci/devices" / folder / "numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

long long peak_device_memory(const Device& device) {
  std::string fault;
  const CudaModule* module = device.is_cuda ? open_cuda_module(&fault) : nullptr;
  return module == nullptr ? 0 : module->peak_memory_bytes(device.index);
}

std::shared_ptr<std::uint8_t[]> pinned_memory(const Device& device, std::size_t bytes) {
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  if (module == nullptr) throw InternalError("pinned memory without a GPU module: " + fault);
  void* memory = module->new_pinned(device.index, bytes);
  if (memory == nullptr)
    throw Error(ErrorCode::kModuleOutOfMemory,
                "Out of memory on this host: " + bytes_text(static_cast<long long>(bytes)) +
                    " of pinned memory were requested. Use a smaller --batch-size or fewer "
                    "--loader-threads, or a machine with more memory.");
  return {static_cast<std::uint8_t*>(memory), module->free_pinned};
}

CudaVersions cuda_versions() {
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  if (module == nullptr) return {};
  const long cudnn = module->cudnn_version();
  const int nccl = module->nccl_version();
  const auto dotted = [](long major, long minor, long patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  };
  return {cuda_text(module->runtime_version()),
          dotted(cudnn / 10000, cudnn % 10000 / 100, cudnn % 100),
          dotted(nccl / 10000, nccl % 10000 / 100, nccl % 100)};
}

const CudaModule* open_cuda_module(std::string* fault) {
  void* library = ::dlopen(module_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    *fault = ::dlerror();
    return nullptr;
  }
  auto* entry = symbol<const CudaModule*()>(library, kCudaModuleSymbol);
  const CudaModule* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != kCudaModuleVersion) {
    *fault = module_path() + " is from a different build of kiln";
    return nullptr;
  }
  return module;
}

Problems find_gpu_problems(const std::vector<RankDevice>& ranks, bool may_share) {
  Problems problems;
  if (!may_share) find_shared_gpus(ranks, problems);
  find_mixed_kinds(ranks, problems);
  return problems;
}

bool ranks_may_share_gpus() {
  const char* text = std::getenv("KILN_SHARE_GPU");
  return text != nullptr && *text != '\0';
}

std::vector<std::string> find_idle_gpus(const std::vector<RankDevice>& ranks) {
  std::vector<std::string> sentences;
  for (const auto& [name, host] : by_host(ranks)) {
    if (host.ranks.size() >= host.num_gpus()) continue;
    sentences.push_back(std::to_string(host.num_gpus() - host.ranks.size()) + " of the " +
                        std::to_string(host.num_gpus()) + " GPUs of host " + name + " are idle");
  }
  return sentences;
}

}  // namespace kiln
