#include "base/platform/launch_environment.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "base/text.h"

namespace kiln {
namespace {

bool is_set(const char* name) {
  return !environment(name).empty();
}

// The number in a variable; 0 if it is not set or empty. Throws Error kUserError for any other
// text.
int number_of(const char* name) {
  constexpr int kMost = 1'000'000'000;
  std::string text = environment(name);
  if (std::string_view(name) == "PET_NNODES") text.erase(0, text.find(':') + 1);  // "1:4"
  const std::optional<int> number = text.empty() ? 0 : number_in<int>(text);
  if (number && *number >= 0 && *number <= kMost) return *number;
  throw Error(ErrorCode::kUserError,
              std::string("The environment variable ") + name + " is '" +
                  excerpt(environment(name)) +
                  "' instead of a whole number from 0 to 1000000000. Correct it, or unset it if "
                  "nothing started this process as one of several.");
}

constexpr std::uint64_t kMiB = 1 << 20;
// Open MPI's btl_vader_segment_size is 4 MiB; the rest is for other shared data.
constexpr std::uint64_t kOfMpiRank = 5 * kMiB;
// NVIDIA recommends 1 GiB; assumed to be for a typical host of eight GPUs.
constexpr std::uint64_t kOfNcclRank = 128 * kMiB;
constexpr const char* kRemedy =
    "start the container with --shm-size=1g or --ipc=host (Kubernetes: an emptyDir with medium "
    "Memory, mounted at /dev/shm)";

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

// "/dev/shm has 64 MiB", if several ranks of this host need more; else empty. By the total size
// rather than the free space, since the ranks check one after another. If there is none, MPI maps
// files in its session folder.
std::string lack_of_shared_memory(int local_size, std::uint64_t needed) {
  struct statvfs shared {};
  if (local_size < 2 || ::statvfs("/dev/shm", &shared) != 0) return "";
  const std::uint64_t size = shared.f_blocks * shared.f_frsize;
  return size >= needed ? "" : "/dev/shm has " + mebibytes(size);
}

// The replicas of a custom job of Vertex AI, in all of its pools; 0: it is none.
int replicas_of_vertex() {
  using Json = nlohmann::json;
  const Json spec = Json::parse(environment("CLUSTER_SPEC"), nullptr, /*allow_exceptions=*/false);
  std::size_t count = 0;
  if (const Json* pools = member_of(spec, "cluster"))
    for (const Json& pool : *pools) count += pool.is_array() ? pool.size() : 0;
  return static_cast<int>(count);
}

// Processes that a platform started together without MPI, so that they do not know each other.
struct LooseProcesses {
  int count = 0;  // 0: it started this one alone
  std::string told;
};

LooseProcesses find_loose_processes() {
  const struct {
    int count;
    const char *who, *what;
  } platforms[] = {
      {number_of("AZUREML_NODE_COUNT"), "Azure ML", " nodes"},
      {is_set("RANK") ? number_of("WORLD_SIZE") : 0, "a launcher", " processes (RANK, WORLD_SIZE)"},
      {number_of("PET_NNODES"), "Kubeflow", " nodes (PET_NNODES)"},
      {replicas_of_vertex(), "Vertex AI", " replicas (CLUSTER_SPEC)"},
      {number_of("AWS_BATCH_JOB_NUM_NODES"), "AWS Batch", " nodes"}};
  const auto* found = std::ranges::find_if(platforms, [](const auto& p) { return p.count > 1; });
  if (found == std::end(platforms)) return {};
  return {found->count,
          std::string(found->who) + " gave it " + std::to_string(found->count) + found->what};
}

// The number in a variable, which counts from 0.
int place_in(const char* name, int count) {
  if (const int place = number_of(name); place < count) return place;
  throw Error(ErrorCode::kUserError,
              formatted("--part auto: %s is %s, but must be below %d. Give the part itself, such "
                        "as --part 3/8.",
                        name, environment(name).c_str(), count));
}

// `whole` is the number of tasks of the array that began the job; 0: not given. Tasks that are
// started again are an array of their own, which does not tell their places in the first one.
JobPart part_of_slurm_array(int whole) {
  const int first = number_of("SLURM_ARRAY_TASK_MIN"), last = number_of("SLURM_ARRAY_TASK_MAX"),
            count = number_of("SLURM_ARRAY_TASK_COUNT"), task = number_of("SLURM_ARRAY_TASK_ID"),
            step = std::max(1, (last - first) / std::max(1, count - 1));
  const bool is_even = last == first + step * (count - 1) && task >= first && task <= last &&
                       (task - first) % step == 0;
  if (is_even && (whole > 0 ? count == whole : count > 1 && step == 1 && first <= 1))
    return {.number = (task - first) / step + 1, .count = count};
  throw Error(
      ErrorCode::kUserError,
      formatted("--part auto: this is task %d of an array of %d from %d to %d. auto needs the "
                "whole array of a job, from 0 or 1 without gaps; auto/N a whole array of N tasks "
                "at equal steps. Tasks that are started again keep their place in the first array: "
                "give --part $SLURM_ARRAY_TASK_ID/N if that began at 1, "
                "$((SLURM_ARRAY_TASK_ID + 1))/N if at 0, $(((SLURM_ARRAY_TASK_ID - F) / S + 1))/N "
                "if at F with steps of S.",
                task, count, first, last));
}

}  // namespace

bool collects_outputs() {
  constexpr const char* kSet[] = {"AZUREML_RUN_ID",      "TRAINING_JOB_NAME", "AIP_MODEL_DIR",
                                  "CLOUD_ML_PROJECT_ID", "CLUSTER_SPEC",      "KFP_POD_NAME",
                                  "ARGO_NODE_ID",        "PET_NNODES"};
  return std::ranges::any_of(kSet, is_set) ||
         is_there(sagemaker_folder() / "input/config/resourceconfig.json");
}

bool is_lost_with_container(const std::string& path) {
  struct stat root {
  }, place{};
  std::filesystem::path there = std::filesystem::absolute(path);
  while (::stat(there.c_str(), &place) != 0 && there.has_relative_path())
    there = there.parent_path();
  if (::stat("/", &root) != 0 || place.st_dev != root.st_dev) return false;
  std::ifstream mounts("/proc/self/mounts");
  bool is_overlay = false;
  for (std::string device, folder, kind, rest;
       mounts >> device >> folder >> kind && std::getline(mounts, rest);)
    if (folder == "/") is_overlay = kind.find("overlay") != kind.npos;  // the last is on top
  return is_overlay;
}

int num_launched() {
  const int of_slurm = number_of("SLURM_STEP_NUM_TASKS");
  const int of_mpi = std::max(number_of("OMPI_COMM_WORLD_SIZE"), number_of("PMI_SIZE"));
  return std::max({1, of_slurm, of_mpi, find_loose_processes().count});
}

int launched_rank() try {
  const int rank = std::max({number_of("OMPI_COMM_WORLD_RANK"), number_of("PMIX_RANK"),
                             number_of("PMI_RANK"), number_of("SLURM_PROCID")});
  return rank < num_launched() ? rank : 0;
} catch (const Error&) {
  return 0;
}

int launched_local_rank() try {
  return std::min(launched_rank(),
                  std::max(number_of("OMPI_COMM_WORLD_LOCAL_RANK"), number_of("SLURM_LOCALID")));
} catch (const Error&) {
  return 0;
}

JobPart part_of_job(int count) {
  if (is_set("SLURM_ARRAY_TASK_ID")) return part_of_slurm_array(count);
  if (count > 0 && is_set("JOB_COMPLETION_INDEX"))
    return {.number = place_in("JOB_COMPLETION_INDEX", count) + 1, .count = count};
  for (const char* folder : {"config", "input/config"}) {
    const std::filesystem::path file = sagemaker_folder() / folder / "resourceconfig.json";
    if (count > 0 || !is_there(file)) continue;
    const SageMakerHosts job = read_sagemaker_hosts(file);
    const auto place = std::find(job.hosts.begin(), job.hosts.end(), job.current_host);
    return {.number = static_cast<int>(place - job.hosts.begin()) + 1,
            .count = static_cast<int>(job.hosts.size())};
  }
  if (count > 0 || !is_set("RANK") || !is_set("WORLD_SIZE"))
    throw Error(ErrorCode::kUserError,
                "--part auto: this is no task of a Slurm array or host of a SageMaker job, and "
                "RANK and WORLD_SIZE are not set; nor, for auto/N, is JOB_COMPLETION_INDEX. Give "
                "the part itself, such as --part 3/8.");
  const int size = number_of("WORLD_SIZE"), num_local = number_of("LOCAL_WORLD_SIZE");
  return {.number = place_in("RANK", size) + 1,
          .count = size,
          .local = num_local > 0 ? place_in("LOCAL_RANK", num_local) : number_of("LOCAL_RANK"),
          .num_local = std::max(1, num_local)};
}

LaunchEnvironment detect_launch_environment() {
  LaunchEnvironment launcher;
  const bool open_mpi = is_set("OMPI_COMM_WORLD_SIZE");
  launcher.mpi = open_mpi || is_set("PMIX_RANK");
  launcher.local_size = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (const int launched = number_of("KILN_LAUNCHED"); launched > 0) {
    launcher.expected_size = launched;
    launcher.expectation = "kiln launch started " + std::to_string(launched) +
                           ": check that all hosts have the same Open MPI version.";
  } else if (const int tasks = number_of("SLURM_STEP_NUM_TASKS"); tasks > 1 && !open_mpi) {
    launcher.expected_size = tasks;
    launcher.expectation = "the Slurm step has " + std::to_string(tasks) +
                           " tasks: start it with srun --mpi=pmix (or with one task).";
  } else if (const LooseProcesses loose = find_loose_processes();
             loose.count > 0 && !launcher.mpi) {
    launcher.expected_size = loose.count;
    launcher.expectation = loose.told +
                           ", and kiln's ranks are started by MPI: use a distribution of type mpi "
                           "on Azure ML, an MPIJob on Kubernetes, or else mpirun, srun "
                           "--mpi=pmix or kiln launch.";
  }
  if (!launcher.mpi && number_of("PMI_SIZE") > 1)
    throw Error(
        ErrorCode::kUserError,
        "This process is one of " + std::to_string(number_of("PMI_SIZE")) +
            " started by the launcher of another MPI implementation (PMI_SIZE is set), which kiln "
            "does not support: start it with Open MPI's mpirun, srun --mpi=pmix, or kiln launch.");
  return launcher;
}

void require_shared_memory(int local_size) {
  const std::uint64_t needed = static_cast<unsigned>(local_size) * kOfMpiRank;
  const std::string found = lack_of_shared_memory(local_size, needed);
  if (found.empty()) return;
  throw Error(ErrorCode::kUserError, found + ", but the " + std::to_string(local_size) +
                                         " ranks on this host need " + mebibytes(needed) +
                                         " to communicate: " + kRemedy + ".");
}

std::string shared_memory_warning(int local_size) {
  const std::uint64_t needed = static_cast<unsigned>(local_size) * kOfNcclRank;
  const std::string found = lack_of_shared_memory(local_size, needed);
  if (found.empty()) return "";
  return found + ", and NCCL may need " + mebibytes(needed) + " for the " +
         std::to_string(local_size) + " ranks on this host: if it fails, " + kRemedy + ".";
}

}  // namespace kiln
