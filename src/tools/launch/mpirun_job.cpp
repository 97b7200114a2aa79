#include "tools/launch/mpirun_job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/platform/installation.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"

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

// `several_hosts`: each has GPUs of its own, with numbers and names of their own.
bool is_passed_on(std::string_view name, bool several_hosts) {
  const std::string asked_for = "," + environment(kPassOn) + ",";
  if (!name.empty() && asked_for.find("," + std::string(name) + ",") != asked_for.npos) return true;
  if (several_hosts && name == "CUDA_VISIBLE_DEVICES") return false;
  for (const std::string_view prefix : kPassedOn)
    if (name.starts_with(prefix)) return name != "KILN_LAUNCHED";
  return std::ranges::find(kPassedOnWhole, name) != std::end(kPassedOnWhole);
}

void append(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

// Where the Open MPI that belongs to the program is; empty if it has none.
std::filesystem::path own_open_mpi() {
  std::filesystem::path prefix = part_of_program("openmpi");
  return is_there(prefix / "bin/mpirun") ? prefix : std::filesystem::path();
}

}  // namespace

void use_own_open_mpi() {
  const std::filesystem::path prefix = own_open_mpi();
  if (prefix.empty()) return;
  ::setenv("OPAL_PREFIX", prefix.c_str(), /*overwrite=*/1);
  ::setenv("OPAL_SYSCONFDIR", (prefix / "etc").c_str(), /*overwrite=*/1);
  // PMIx would open the plug-ins of another PMIx on the machine; all that the release has of it is
  // in the library. It warns that its compression, which is not, is missing.
  ::setenv("PMIX_MCA_mca_base_component_disable_dlopen", "1", /*overwrite=*/0);
  ::setenv("PMIX_MCA_pcompress_base_silence_warning", "1", /*overwrite=*/0);
  const char* path = std::getenv("PATH");
  const std::string programs = (prefix / "bin").string();
  ::setenv("PATH", (path == nullptr ? programs : programs + ":" + path).c_str(), /*overwrite=*/1);
}

std::string find_on_path(const std::string& name) {
  std::istringstream folders(environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/" + name;
    if (!folder.empty() && is_file(candidate) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return "";
}

ProgramCall mpirun_call(const MpirunJob& job) {
  ProgramCall call;
  const std::filesystem::path own = own_open_mpi();
  const std::string mpirun = own.empty() ? find_on_path("mpirun") : (own / "bin/mpirun").string();
  if (mpirun.empty())
    throw Error(ErrorCode::kUserError,
                "mpirun, which starts the ranks, is not on PATH: install Open MPI 4.1 (Debian and "
                "Ubuntu: openmpi-bin).");
  std::vector<std::string>& words = call.words;
  words = {mpirun, "--tag-output", "-np", std::to_string(job.num_ranks)};
  std::string hosts;
  for (const RankHost& host : job.hosts)
    hosts += (hosts.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
  if (!hosts.empty()) append(words, {"--host", hosts});
  // The ranks bind themselves to cores (parallel/processors/processors.h).
  append(words, {"--map-by", "slot", "--bind-to", "none", "--oversubscribe"});
  // A parameter on the command line would override the user's environment variable.
  for (const auto& [name, value] : kParameters)
    if (environment((std::string("OMPI_MCA_") + name).c_str()).empty())
      append(words, {"--mca", name, value});
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    if (is_passed_on(name, job.hosts.size() > 1)) append(words, {"-x", name});
  }
  append(words, {"-x", "KILN_LAUNCHED"});
  words.insert(words.end(), job.words.begin(), job.words.end());
  call.environment.emplace_back("KILN_LAUNCHED", std::to_string(job.num_ranks));
  // mpirun crashes if there is neither HOME nor a passwd entry.
  if (environment("HOME").empty()) call.environment.emplace_back("HOME", "/tmp");
  if (::geteuid() == 0) {
    call.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
    call.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  return call;
}

void require_temporary_folder() {
  std::error_code fault;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(fault);
  if (fault || ::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw Error(ErrorCode::kUserError, quoted_path(folder) +
                                         ", where Open MPI keeps files of a job, cannot be written "
                                         "(" +
                                         std::strerror(errno) +
                                         "): set TMPDIR to a folder that can.");
}

void provide_open_files(int num_ranks) {
  const unsigned long long wanted = 64 + 16 * static_cast<unsigned long long>(num_ranks);
  const unsigned long long allowed = allow_open_files(wanted);
  if (allowed >= wanted) return;
  throw Error(ErrorCode::kFailedToCompleteOperation,
              "This process may open " + std::to_string(allowed) + " files, but mpirun and " +
                  std::to_string(num_ranks) + " ranks need " + std::to_string(wanted) +
                  ": raise the limit of open files (ulimit -n).");
}

std::vector<std::string> planned_hosts(const MpirunJob& job) {
  std::vector<std::string> hosts;
  for (const RankHost& host : job.hosts) hosts.insert(hosts.end(), host.slots, host.name);
  if (job.hosts.empty() && environment("OMPI_MCA_orte_default_hostfile").empty() &&
      environment("SLURM_JOB_ID").empty())
    hosts.assign(job.num_ranks, host_name());
  hosts.resize(job.num_ranks);
  return hosts;
}

namespace {

constexpr std::string_view kLeaving = "leaving";  // last phase, unless the rank is killed or aborts
constexpr std::size_t kLinesKept = 20;
constexpr std::size_t kLongestLine = 1 << 16;
constexpr std::size_t kLongestTag = 40;
constexpr const char* kStreams[] = {"<stdout>:", "<stderr>:", "<stddiag>:"};

// Exit codes: docs/errors.md has those of ranks.
constexpr int kFailed = 3, kNotStarted = 127;  // the latter as a shell has it

std::size_t digits_at(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
}

// The length of a tag such as "[1,RANK]<stdout>:" at the beginning of `text`, which sets `source`;
// 0: this is no tag; npos: more bytes are needed to tell.
std::size_t tag_length(std::string_view text, OutputSplitter::Source& source) {
  std::size_t at = 1;
  int rank = 0;
  for (const char after : {',', ']'}) {
    const std::size_t count = digits_at(text, at);
    if (at + count >= text.size()) return text.size() < kLongestTag ? text.npos : 0;
    if (count == 0 || count > 9 || text[at + count] != after) return 0;
    rank = std::atoi(std::string(text.substr(at, count)).c_str());
    at += count + 1;
  }
  const std::string_view rest = text.substr(at);
  for (const std::string_view stream : kStreams) {
    if (rest.starts_with(stream)) {
      source = {rank, stream != kStreams[0]};
      return at + stream.size();
    }
    if (stream.starts_with(rest)) return text.npos;
  }
  return 0;
}

std::string_view plain_part(std::string_view text) {
  return trimmed(text.substr(0, text.find_last_not_of(" .") + 1), " ");
}

// "Exit code:    7" -> 7; false if `text` does not begin with `key`.
bool read_field(const std::string& text, const char* key, std::string* value) {
  const std::string_view line = plain_part(text);
  if (!line.starts_with(key)) return false;
  *value = plain_part(line.substr(std::string_view(key).size()));
  return true;
}

}  // namespace

void OutputSplitter::give(Source source) {
  std::string& text = begun_[source];
  if (text.ends_with('\r')) text.pop_back();
  // Of a line that overwrote itself, as progress lines do, keep only the last state.
  if (const std::size_t again = text.rfind('\r'); again != text.npos) text.erase(0, again + 1);
  if (text.starts_with("\x1b[K")) text.erase(0, 3);
  take_({source.first, source.second, for_people(text)});
  begun_.erase(source);
}

// Adds a piece without line ends.
void OutputSplitter::add(std::string_view piece) {
  while (!piece.empty()) {
    std::string& text = begun_[source_];
    const std::size_t count = std::min(piece.size(), kLongestLine - text.size());
    text += piece.substr(0, count);
    piece.remove_prefix(count);
    if (text.size() == kLongestLine) give(source_);
  }
}

// Returns false if more bytes are needed to recognize a tag.
bool OutputSplitter::read_tag() {
  const std::size_t length = tag_length(std::string_view(rest_).substr(at_), source_);
  if (length == std::string::npos) return false;
  if (length == 0) add("[");
  at_ += std::max<std::size_t>(length, 1);
  return true;
}

void OutputSplitter::feed(std::string_view bytes) {
  rest_ += bytes;
  while (at_ < rest_.size()) {
    const std::size_t end = std::min(rest_.find_first_of("[\n", at_), rest_.size());
    add(std::string_view(rest_).substr(at_, end - at_));
    at_ = end;
    if (end == rest_.size()) break;
    if (rest_[at_] == '[') {
      if (!read_tag()) break;
      continue;
    }
    give(source_);
    source_ = {kMpirunItself, false};
    ++at_;
  }
  rest_.erase(0, at_);
  at_ = 0;
}

void OutputSplitter::finish() {
  add(std::exchange(rest_, ""));
  while (!begun_.empty()) give(begun_.begin()->first);
}

JobMonitor::JobMonitor(std::vector<std::string> hosts) {
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks_[static_cast<int>(rank)].host = std::move(hosts[rank]);
}

bool JobMonitor::take(const OutputLine& line) {
  Rank& rank = ranks_[line.rank];
  const std::string key = "rank " + std::to_string(line.rank) + " on host ";
  const std::size_t phase = line.text.find(": phase: ");
  if (line.rank != kMpirunItself && line.text.starts_with(key) && phase != line.text.npos) {
    const std::string name = line.text.substr(phase + 9);
    rank.is_leaving = name == kLeaving;
    if (!rank.is_leaving) rank.phase = name;
    rank.host = line.text.substr(key.size(), phase - key.size());
    return false;
  }
  rank.lines.push_back(line.text);
  if (rank.lines.size() > kLinesKept) rank.lines.pop_front();
  if (line.rank == kMpirunItself) {
    read_mpirun(line.text);
    return true;
  }
  // Ranks print their own errors as "error: why", prefixed with "rank 1: " and so on except on rank
  // 0.
  const std::string prefix = line.rank == 0 ? "" : "rank " + std::to_string(line.rank) + ": ";
  const bool is_error = line.text.starts_with(prefix + "error: ");
  if (is_error || line.is_error) read_blame(line.text);
  rank.reported_error = rank.reported_error || is_error;
  seen_failure_ = seen_failure_ || is_error;
  return true;
}

// Parses "rank 1 on host node7 failed: why", which ranks print when another rank has failed. The
// first such report counts.
void JobMonitor::read_blame(const std::string& text) {
  const std::size_t failed = text.find(" failed: ");
  if (failed == text.npos || blamed_ != kMpirunItself) return;
  const std::size_t host = text.rfind(" on host ", failed);
  const std::size_t rank = host == text.npos ? host : text.rfind("rank ", host);
  if (rank == text.npos || digits_at(text, rank + 5) != host - rank - 5) return;
  blamed_ = std::atoi(text.c_str() + rank + 5);
}

void JobMonitor::read_mpirun(const std::string& text) {
  std::array<char, 256> host{}, name{};
  int rank = 0, number = 0;
  std::string value;
  if (std::sscanf(text.c_str(),
                  "mpirun noticed that process rank %d with PID %*d on node %255s exited on signal "
                  "%d (%255[^)])",
                  &rank, host.data(), &number, name.data()) >= 3) {
    killed_ = rank;
    signal_ = number;
    signal_name_ = name.data();
    if (ranks_[rank].host.empty()) ranks_[rank].host = host.data();
  } else if (std::sscanf(text.c_str(), "MPI_ABORT was invoked on rank %d", &rank) == 1) {
    aborted_ = rank;
  } else if (text.find("lost communication with a remote daemon") != text.npos) {
    lost_ = true;
  } else if (lost_ && lost_host_.empty() && read_field(text, "Remote daemon:", &value)) {
    const std::size_t node = value.find(" on node ");
    if (node != value.npos) lost_host_ = value.substr(node + 9);
  } else if (read_field(text, "Process name:", &value) && value.rfind(',') != value.npos) {
    exited_ = std::atoi(value.c_str() + value.rfind(',') + 1);
  } else if (read_field(text, "Exit code:", &value)) {
    exit_code_ = std::atoi(value.c_str());
  } else if (text.find("a non-zero exit code") == text.npos) {
    return;
  }
  seen_failure_ = true;
}

// A rank that others report as failed takes precedence over the one that exited first, because once
// the ranks agree on a failure they all exit.
int JobMonitor::rank_to_blame() const {
  if (signal_ != 0) return killed_;
  if (blamed_ != kMpirunItself) return blamed_;
  if (aborted_ != kMpirunItself) return aborted_;
  if (lost_) {
    for (const auto& [number, rank] : ranks_)
      if (number != kMpirunItself && rank.host == lost_host_) return number;
    return kMpirunItself;
  }
  if (exited_ != kMpirunItself) return exited_;
  // mpirun does not name a rank that ends before MPI_Init.
  for (const auto& [number, rank] : ranks_)
    if (number != kMpirunItself && rank.reported_error) return number;
  return kMpirunItself;
}

bool JobMonitor::has_end() const {
  return std::ranges::any_of(ranks_, [](auto& numbered) { return numbered.second.is_leaving; });
}

JobFailure JobMonitor::failure(int code) const {
  JobFailure failure;
  failure.rank = code == 0 ? kMpirunItself : rank_to_blame();
  failure.exit_code = code;
  if (const auto found = ranks_.find(failure.rank); found != ranks_.end()) {
    failure.host = found->second.host;
    failure.phase = found->second.phase;
  }
  if (code == 0) {
    failure.exit_code = kFailed;
    failure.what = "ended with exit code 0, but no rank reported its end: is it Open MPI's mpirun?";
  } else if (signal_ != 0) {
    failure.what = "was killed by signal " + std::to_string(signal_) +
                   (signal_name_.empty() ? "" : " (" + signal_name_ + ")");
    failure.killed = true;
    failure.exit_code = 128 + signal_;
  } else if (lost_ && blamed_ == kMpirunItself && aborted_ == kMpirunItself) {
    if (failure.rank == kMpirunItself) failure.host = lost_host_;
    failure.what = "is unreachable: the connection to its host was lost";
    failure.killed = true;
    failure.exit_code = kFailed;
  } else {
    if (exit_code_ != 0) failure.exit_code = exit_code_;
    const auto first = ranks_.find(0);
    failure.told = failure.rank == 0 && first != ranks_.end() && first->second.reported_error &&
                   first->second.is_leaving;
    failure.what = "ended with exit code " + std::to_string(failure.exit_code);
    if (failure.exit_code == kNotStarted)
      failure.what +=
          ", which means that a program could not be started (if there are too many "
          "processes, raise ulimit -u or the container's limit of processes)";
    if (const int own = failure.exit_code; own != 1 && own != 2 && own != 70 && own <= 128)
      failure.exit_code = kFailed;  // one that is documented
  }
  return failure;
}

const std::deque<std::string>& JobMonitor::last_lines(int rank) const {
  static const std::deque<std::string> kNone;
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? kNone : found->second.lines;
}

}  // namespace kiln
