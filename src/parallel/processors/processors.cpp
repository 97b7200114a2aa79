#include "parallel/processors/processors.h"

#include <ATen/Parallel.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <system_error>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "parallel/processors/contention.h"
#include "parallel/processors/sleeping_team.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

cpu_set_t allowed_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  return mask;
}

// The number of the core's first hardware thread. If the system does not describe the topology,
// each processor is its own core.
int core_of(const fs::path& folder, int number) {
  std::ifstream siblings(folder / "topology/thread_siblings_list");
  int first = number;
  siblings >> first;
  return siblings ? first : number;
}

int node_of(const fs::path& folder) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == name.npos)
      return std::atoi(name.c_str() + 4);
  }
  return 0;
}

// The ranks on this host with the same affinity mask as this one.
struct Sharing {
  cpu_set_t mask;
  int num_ranks = 0, index = 0;  // `index`: this rank's position among them, from 0
  std::vector<int> gpu_nodes = {};
};

Sharing sharing_of(World& world, int gpu_node = -1) {
  Sharing found{allowed_processors()};
  const std::vector<cpu_set_t> masks = world.gather(found.mask);
  const std::vector<int> gpu_nodes = world.gather(gpu_node);
  const auto& hosts = world.hosts();
  const auto self = static_cast<std::size_t>(world.rank());
  for (std::size_t rank = 0; rank < masks.size(); ++rank) {
    if (hosts[rank] != hosts[self] || !CPU_EQUAL(&masks[rank], &found.mask)) continue;
    ++found.num_ranks;
    found.gpu_nodes.push_back(gpu_nodes[rank]);
    if (rank < self) ++found.index;
  }
  return found;
}

// Every operation wakes all threads: with 32 per processor a step takes ten times as long as with
// one, with 512 over a hundred times.
constexpr int kMaxPerProcessor = 32;

const int kProcessorsAtStart = usable_cpus();  // the number that libgomp uses

}  // namespace

std::vector<Processor> own_processors() {
  const cpu_set_t mask = allowed_processors();
  std::vector<Processor> all;
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (!CPU_ISSET(number, &mask)) continue;
    const fs::path folder = "/sys/devices/system/cpu/cpu" + std::to_string(number);
    all.push_back({number, core_of(folder, number), node_of(folder)});
  }
  return all;
}

bool bind_all_threads(const std::vector<int>& processors) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int number : processors) CPU_SET(number, &mask);
  if (::sched_setaffinity(0, sizeof mask, &mask) != 0) return false;
  std::error_code failure;
  for (const auto& thread : fs::directory_iterator("/proc/self/task", failure))
    ::sched_setaffinity(std::atoi(thread.path().filename().c_str()), sizeof mask, &mask);
  return true;
}

std::vector<int> processors_of_part(std::vector<Processor> all, int index, int count) {
  std::ranges::sort(
      all, {}, [](const Processor& each) { return std::tuple(each.node, each.core, each.number); });
  std::vector<int> cores;
  for (const Processor& processor : all)
    if (cores.empty() || cores.back() != processor.core) cores.push_back(processor.core);
  const auto size = static_cast<std::ptrdiff_t>(cores.size()) / count;
  const auto begin = cores.begin() + index * size;
  std::vector<int> part;
  for (const Processor& processor : all)
    if (std::find(begin, begin + size, processor.core) != begin + size)
      part.push_back(processor.number);
  return part;
}

std::vector<int> processors_of_rank(std::vector<Processor> all, const std::vector<int>& gpu_nodes,
                                    int index) {
  std::vector<int> order(gpu_nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int rank) { return gpu_nodes[rank]; });
  const auto place = std::find(order.begin(), order.end(), index) - order.begin();
  return processors_of_part(std::move(all), place, order.size());
}

int bind_to_own_cores(World& world, int gpu_node) {
  const Sharing found = sharing_of(world, gpu_node);
  if (found.num_ranks < 2 || usable_cpus() < CPU_COUNT(&found.mask)) return 0;
  const std::vector<int> own = processors_of_rank(own_processors(), found.gpu_nodes, found.index);
  return !own.empty() && bind_all_threads(own) ? static_cast<int>(own.size()) : 0;
}

int processors_of_this_rank(World& world) {
  return std::max(1, usable_cpus() / sharing_of(world).num_ranks);
}

void use_compute_threads(int count) {
  if (const int most = kMaxPerProcessor * kProcessorsAtStart; count > most)
    throw Error(ErrorCode::kUserError,
                formatted("--threads is %d, but this process may use only %d processors: so many "
                          "threads would mostly wait for each other. Give at most %d, or omit it "
                          "for one thread per processor.",
                          count, kProcessorsAtStart, most));
  require_threads(2 * (count - 1));  // one team of libgomp's, one of LibTorch's own
  at::set_num_threads(count);
  const bool is_decided =
      std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
  if (count < 2 || count > kProcessorsAtStart || is_decided) return;
  try {
    watch_contention(kProcessorsAtStart, count);
  } catch (const std::system_error&) {  // no more threads allowed: the threads keep spinning
  }
}

}  // namespace kiln
