#include "parallel/device/device.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "base/names.h"
#include "base/platform/installation.h"
#include "base/system.h"
#include "base/text.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

// nullptr if `library`, a handle from dlopen, has no such symbol.
template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

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

// What the LibTorch at hand needs, as the end of a clause; empty without the GPU module.
std::string needed(const CudaModule* module) {
  if (module == nullptr) return "";
  return "; this LibTorch needs a driver for CUDA " +
         cuda_text(module->runtime_version() / 1000 * 1000) + " or newer";
}

// Throws unless the driver and this process's device are usable. Loads the GPU module, initializes
// the CUDA runtime, and tries whether LibTorch has code for this GPU.
void require_usable(const NvidiaDriver& driver) {
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  const std::string need = needed(module);
  // What libcuda says decides: with CUDA's forward-compatibility package it is newer than the
  // kernel's driver. A driver serves all runtimes of its major version.
  if (module != nullptr && driver.cuda_version > 0 &&
      driver.cuda_version / 1000 < module->runtime_version() / 1000)
    refuse("The NVIDIA driver is too old (" + describe(driver) + ")" + need +
           ": update the driver.");
  if (!driver.library)
    refuse("An NVIDIA device is present (" + describe(driver) +
           "), but the driver's library libcuda.so.1 is missing" + need +
           ": install it, or start a container with --gpus all.");
  if (!driver.fault.empty())
    refuse("The NVIDIA driver cannot be used (" + describe(driver) + "): " + driver.fault + need +
           ": run nvidia-smi for details.");
  const std::string gpu = "The GPU '" + driver.name + "' is present (" + capability_text(driver) +
                          ", " + describe(driver) + "), but ";
  if (module == nullptr) refuse(gpu + fault + ".");
  if (const std::string refusal = module->device_fault(driver.index); !refusal.empty())
    refuse(gpu + "CUDA " + cuda_text(module->runtime_version()) + " cannot use it: " + refusal +
           (driver.cuda_version > 0 ? "" : need) + ": run nvidia-smi for details.");
}

std::string module_path() {
  return part_of_program("libkiln_cuda.so").string();
}

struct Host {
  std::vector<std::size_t> ranks;
  std::set<std::string> gpus;
  // By one rank: a lower bound on the number of GPUs if UUIDs are unknown.
  std::size_t most_seen = 0;

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

void add(Problems& problems, const std::string& sentence) {
  problems.add(Error(ErrorCode::kUserError, sentence));
}

void find_shared_gpus(const std::vector<RankDevice>& ranks, Problems& problems) {
  std::set<std::string> crowded;
  for (const auto& [name, host] : by_host(ranks)) {
    if (host.ranks.size() <= host.num_gpus()) continue;
    crowded.insert(name);
    const bool is_sliced = std::ranges::any_of(
        host.gpus, [](const std::string& gpu) { return gpu.starts_with("MIG-"); });
    add(problems, "Process count per node (" + std::to_string(host.ranks.size()) +
                      ") is greater than the processing units (" + std::to_string(host.num_gpus()) +
                      ") on host " + name +
                      (is_sliced ? ": CUDA shows a process a single MIG slice, so start each rank "
                                   "with CUDA_VISIBLE_DEVICES=MIG-… of its own (nvidia-smi -L)"
                                 : ": start at most one rank per GPU") +
                      ", or use --device cpu.");
  }
  std::map<std::string, std::vector<std::string>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].is_cuda && !ranks[rank].chosen.empty() && !crowded.contains(ranks[rank].host))
      users[ranks[rank].chosen].push_back(std::to_string(rank));
  for (const auto& [gpu, numbers] : users) {
    if (numbers.size() < 2) continue;
    add(problems, "Ranks " + few_of(numbers, 8) + " on host " +
                      std::ranges::find(ranks, gpu, &RankDevice::chosen)->host +
                      " share the same GPU (" + gpu +
                      "): set CUDA_VISIBLE_DEVICES so that each rank sees its own GPU or all GPUs "
                      "of the host.");
  }
}

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
  const bool is_mig = name(model, sizeof model, device) == 0 &&
                      std::string_view(model).find(" MIG ") != std::string_view::npos;
  std::string text = is_mig ? "MIG-" : "GPU-";  // "NVIDIA H200 MIG 1g.18gb"
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += formatted("%02x", bytes[i]);
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
  if (status == 0 || status == kNoDevice) return;
  auto* explain = symbol<int(int, const char**)>(library, "cuGetErrorString");
  const char* text = nullptr;
  if (explain != nullptr && explain(status, &text) != 0) text = nullptr;
  driver.fault = "the CUDA driver returned error " + std::to_string(status) +
                 (text == nullptr ? "" : " (" + std::string(text) + ")");
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
          "--device cuda is set, but no NVIDIA device is visible to this process: install NVIDIA's "
          "driver, check CUDA_VISIBLE_DEVICES, or start a container with --gpus all.");
    return {.description = "CPU (no NVIDIA device found)"};
  }
  require_usable(driver);
  return {.is_cuda = true,
          .index = driver.index,
          .capability = driver.capability_major * 10 + driver.capability_minor,
          .description = driver.name + ", " + capability_text(driver) + ", " + describe(driver),
          .uuid = driver.uuids[static_cast<std::size_t>(driver.index)],
          .visible_uuids = driver.uuids,
          .numa_node = numa_node_of(driver.pci_address)};
}

int numa_node_of(const std::string& pci_address, const fs::path& sysfs) {
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
  return {static_cast<std::uint8_t*>(memory),
          [module, gpu = device.index](std::uint8_t* done) { module->free_pinned(gpu, done); }};
}

CudaVersions cuda_versions() {
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  if (module == nullptr) return {};
  const long cudnn = module->cudnn_version(), nccl = module->nccl_version();
  const auto dotted = [](long major, long minor, long patch) {
    return formatted("%ld.%ld.%ld", major, minor, patch);
  };
  return {cuda_text(module->runtime_version()),
          dotted(cudnn / 10000, cudnn % 10000 / 100, cudnn % 100),
          dotted(nccl / 10000, nccl % 10000 / 100, nccl % 100)};
}

// Opens LibTorch's part for GPUs, which in a wheel only the part that is loaded already can find.
static bool open_torch_cuda() {
  void* loaded = ::dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  link_map* place = nullptr;
  if (loaded == nullptr || ::dlinfo(loaded, RTLD_DI_LINKMAP, &place) != 0) return false;
  const auto part = fs::path(place->l_name).parent_path() / "libtorch_cuda.so";
  return ::dlopen(part.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
}

const CudaModule* open_cuda_module(std::string* fault) {
  const auto open = [] { return ::dlopen(module_path().c_str(), RTLD_NOW | RTLD_GLOBAL); };
  void* library = open();
  if (library == nullptr && fs::exists(module_path()) && open_torch_cuda()) library = open();
  if (library == nullptr) {
    const std::string reason = ::dlerror();
    *fault =
        fs::exists(module_path())
            ? "the GPU module libkiln_cuda.so could not be loaded: " + reason +
                  "; it needs the libraries of CUDA 13 that the archive and the image for GPUs "
                  "bring, and the wheel's PyTorch 2.11 if that is not built for CPUs alone or "
                  "another CUDA"
            : "this kiln is for CPUs alone, without the GPU module libkiln_cuda.so: take the "
              "archive, image or wheel for GPUs";
    return nullptr;
  }
  auto* entry = symbol<const CudaModule*()>(library, kCudaModuleSymbol);
  const CudaModule* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != kCudaModuleVersion) {
    *fault = module_path() + " is from a different build of kiln: install both again";
    return nullptr;
  }
  return module;
}

Problems find_gpu_problems(const std::vector<RankDevice>& ranks, bool may_share) {
  Problems problems;
  if (!may_share) find_shared_gpus(ranks, problems);
  const auto on_gpu = std::ranges::find(ranks, true, &RankDevice::is_cuda),
             on_cpu = std::ranges::find(ranks, false, &RankDevice::is_cuda);
  if (on_gpu == ranks.end() || on_cpu == ranks.end()) return problems;
  const auto name = [&](auto place) {
    return "rank " + std::to_string(place - ranks.begin()) + " on host " + place->host;
  };
  add(problems, "The ranks use different kinds of devices: " + name(on_gpu) + " found a GPU, " +
                    name(on_cpu) + " has no GPU: give every rank a GPU, or use --device cpu.");
  return problems;
}

bool ranks_may_share_gpus() {
  return !environment("KILN_SHARE_GPU").empty();
}

int ranks_on_gpu(const Device& device, int num_on_host) {
  const int visible = std::max(1, static_cast<int>(device.visible_uuids.size()));
  return ranks_may_share_gpus() ? (num_on_host + visible - 1) / visible : 1;
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

NvidiaDriver ask_nvidia_driver(int local_rank) {
  // Threads of the driver keep this thread's mask: otherwise a signal delivered to one of them
  // would take its default action, even if the program's own threads block it.
  sigset_t all{}, before{};
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  NvidiaDriver driver;
  driver.device_files =
      ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/proc/driver/nvidia/version", F_OK) == 0;
  driver.version = nvml_driver_version();
  if (driver.version.empty()) driver.version = kernel_driver_version();
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  driver.library = library != nullptr;
  if (driver.library) ask_cuda(library, local_rank, driver);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return driver;
}

struct GpuMeter::Samples {
  std::mutex mutex;
  GpuLoad sum;
  int count = 0;
};

GpuMeter::GpuMeter(const std::string& uuid) : samples_(std::make_shared<Samples>()) {
  if (uuid.empty()) return;
  std::packaged_task<void()> sampling(
      [samples = samples_, uuid, stop = stop_.get_token()] { sample(*samples, uuid, stop); });
  ended_ = sampling.get_future();
  std::thread(std::move(sampling)).detach();
}

GpuMeter::~GpuMeter() {
  stop_.request_stop();
  if (ended_.valid()) ended_.wait_for(std::chrono::seconds(1));
}

void GpuMeter::sample(Samples& samples, const std::string& uuid, const std::stop_token& stop) {
  struct Utilization {             // of nvml.h, whose ABI is stable by contract
    unsigned gpu = 0, memory = 0;  // percent
  };
  constexpr std::chrono::milliseconds kSampleEvery(200);
  constexpr double kMilliwatts = 1000;
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  auto* init = symbol<int()>(library, "nvmlInit_v2");
  auto* find = symbol<int(const char*, void**)>(library, "nvmlDeviceGetHandleByUUID");
  auto* ask = symbol<int(void*, Utilization*)>(library, "nvmlDeviceGetUtilizationRates");
  auto* ask_power = symbol<int(void*, unsigned*)>(library, "nvmlDeviceGetPowerUsage");
  void* gpu = nullptr;
  if (init == nullptr || find == nullptr || ask == nullptr || ask_power == nullptr) return;
  if (init() != 0 || find(uuid.c_str(), &gpu) != 0) return;
  for (std::condition_variable_any never; !stop.stop_requested();) {
    Utilization utilization;
    unsigned milliwatts = 0;
    const bool is_known = ask(gpu, &utilization) == 0;
    if (ask_power(gpu, &milliwatts) != 0) milliwatts = 0;
    std::unique_lock lock(samples.mutex);
    if (is_known) {
      samples.sum.utilization_percent += utilization.gpu;
      samples.sum.power_watts += milliwatts / kMilliwatts;
      ++samples.count;
    }
    never.wait_for(lock, stop, kSampleEvery, [] { return false; });
  }
}

std::optional<GpuLoad> GpuMeter::take_average() {
  const std::lock_guard lock(samples_->mutex);
  if (samples_->count == 0) return std::nullopt;
  const GpuLoad sum = std::exchange(samples_->sum, {});
  const int count = std::exchange(samples_->count, 0);
  return GpuLoad{sum.utilization_percent / count, sum.power_watts / count};
}

}  // namespace kiln
