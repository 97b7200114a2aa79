#include "tools/launch/mpirun_job.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/system.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace kiln {
namespace {

// A vanished peer is detected after 20 + 5 x 3 seconds; with Open MPI's defaults it takes eight
// minutes.
constexpr std::array<std::pair<const char*, const char*>, 4> kParameters = {{
    {"oob_tcp_keepalive_time", "20"},
    {"oob_tcp_keepalive_intvl", "5"},
    {"oob_tcp_keepalive_probes", "3"},
    {"orte_abort_on_non_zero_status", "1"},
}};

// Prefixes of the variables to pass to every host: all ranks of a job must use the same settings,
// such as those that decide which device computes, and how.
constexpr const char* kPassedOn[] = {"KILN_", "OMP_",   "GOMP_",  "NCCL_",  "MLFLOW_",  "AZUREML_",
                                     "CUDA_", "CUBLAS", "CUDNN_", "TORCH_", "PYTORCH_", "UCX_"};
constexpr const char* kPassedOnWhole[] = {"NVIDIA_TF32_OVERRIDE", "LD_LIBRARY_PATH", "PATH"};

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0';
}

// True if the comma-separated list contains the name.
bool lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

bool is_passed_on(std::string_view name) {
  if (const char* asked_for = std::getenv(kPassOn); asked_for != nullptr && lists(asked_for, name))
    return true;
  for (const std::string_view prefix : kPassedOn)
    if (name.starts_with(prefix)) return name != "KILN_LAUNCHED";
  return std::find(std::begin(kPassedOnWhole), std::end(kPassedOnWhole), name) !=
         std::end(kPassedOnWhole);
}

void append(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

void append_parameter(std::vector<std::string>& words, const std::string& name,
                      const std::string& value) {
  // A parameter on the command line would override the user's environment variable.
  if (!is_set(("OMPI_MCA_" + name).c_str())) append(words, {"--mca", name, value});
}

void append_variables(std::vector<std::string>& words) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (is_passed_on(name)) append(words, {"-x", std::string(name)});
  }
  append(words, {"-x", "KILN_LAUNCHED"});
}

void append_hosts(std::vector<std::string>& words, const std::vector<RankHost>& hosts) {
  if (hosts.empty()) return;
  std::string list;
  for (const RankHost& host : hosts)
    list += (list.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
  append(words, {"--host", list});
}

}  // namespace

std::string find_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::string candidate = std::string(rest.substr(0, end)) + "/" + name;
    std::error_code fault;
    if (end > 0 && std::filesystem::is_regular_file(candidate, fault) &&
        ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

ProgramCall mpirun_call(const MpirunJob& job) {
  ProgramCall call;
  const std::string mpirun = find_on_path("mpirun");
  if (mpirun.empty())
    throw Error(ErrorCode::kUserError,
                "mpirun, which starts the ranks, is not on PATH: install Open MPI 4.1 (Debian and "
                "Ubuntu: openmpi-bin).");
  std::vector<std::string>& words = call.words;
  words = {mpirun, "--tag-output", "-np", std::to_string(job.num_ranks)};
  append_hosts(words, job.hosts);
  // The ranks bind themselves to cores (parallel/processors/binding.h).
  append(words, {"--map-by", "slot", "--bind-to", "none", "--oversubscribe"});
  for (const auto& [name, value] : kParameters) append_parameter(words, name, value);
  append_variables(words);
  words.insert(words.end(), job.words.begin(), job.words.end());
  call.environment.emplace_back("KILN_LAUNCHED", std::to_string(job.num_ranks));
  // mpirun crashes if there is neither HOME nor a passwd entry.
  if (!is_set("HOME")) call.environment.emplace_back("HOME", "/tmp");
  if (::geteuid() == 0) {
    call.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
    call.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  return call;
}

void provide_open_files(int num_ranks) {
  const rlim_t wanted = 64 + 16 * static_cast<rlim_t>(num_ranks);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (limit.rlim_max >= wanted && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  throw Error(ErrorCode::kFailedToCompleteOperation,
              "This process may open " + std::to_string(limit.rlim_max) +
                  " files, but mpirun and " + std::to_string(num_ranks) + " ranks need " +
                  std::to_string(wanted) + ": raise the limit of open files (ulimit -n).");
}

std::vector<std::string> planned_hosts(const MpirunJob& job) {
  std::vector<std::string> hosts;
  for (const RankHost& host : job.hosts) hosts.insert(hosts.end(), host.slots, host.name);
  if (job.hosts.empty() && !is_set("OMPI_MCA_orte_default_hostfile") && !is_set("SLURM_JOB_ID"))
    hosts.assign(job.num_ranks, host_name());
  hosts.resize(job.num_ranks);
  return hosts;
}

}  // namespace kiln
