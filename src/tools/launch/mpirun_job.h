// Builds the mpirun command that starts the ranks, with the settings needed on this machine and in
// containers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/vocabulary.h"
#include "tools/launch/supervised_process.h"

namespace kiln {

struct MpirunJob {
  int num_ranks = 1;
  std::vector<RankHost> hosts;     // empty: mpirun's default, which is this host
  std::vector<std::string> words;  // program and arguments, the same for each rank
};

// An environment variable that lists further variables to pass to every host, separated by commas.
inline constexpr const char* kPassOn = "KILN_PASS_ON";

// Where the release has its own Open MPI (part openmpi/ of the program), makes this process and the
// programs that it starts use it: its mpirun is the first on PATH, and MPI finds its plug-ins, also
// under another installation's mpirun or srun. Call before any thread starts.
void use_own_open_mpi();

// The path of program `name` on PATH; empty if there is none.
std::string find_on_path(const std::string& name);

// Sets KILN_LAUNCHED to the number of ranks in their environment. Passes to every host the
// variables that configure kiln, OpenMP, CUDA and its libraries, LibTorch, NCCL, UCX and MLflow,
// and those listed in kPassOn. Throws Error kUserError if mpirun is not installed.
ProgramCall mpirun_call(const MpirunJob& job);

// Raises this process's limit on open files to what mpirun and the ranks need; with fewer they hang
// instead of failing. Throws Error kFailedToCompleteOperation if the system does not allow that
// many.
void provide_open_files(int num_ranks);

// Throws Error kUserError if Open MPI could not keep its files, about which it says much.
void require_temporary_folder();

// The host on which mpirun will place each rank; empty names if not known in advance.
std::vector<std::string> planned_hosts(const MpirunJob& job);

// Parses the output of `mpirun --tag-output`: the rank of each line, the last phase of each rank,
// and which rank failed and how. Pure text processing.

constexpr int kMpirunItself = -1;

struct OutputLine {
  int rank = kMpirunItself;
  bool is_error = false;  // from the rank's standard error
  std::string text;
};

// Reassembles lines that mpirun split into tagged pieces and interleaved with those of other ranks.
// They are printable(): what a program wrote cannot control the terminal that shows it.
class OutputSplitter {
 public:
  using Source = std::pair<int, bool>;  // rank, is_error

  explicit OutputSplitter(std::function<void(const OutputLine&)> take) : take_(std::move(take)) {}
  void feed(std::string_view bytes);
  void finish();  // flushes incomplete lines

 private:
  bool read_tag();
  void add(std::string_view piece);
  void give(Source source);

  std::function<void(const OutputLine&)> take_;
  std::string rest_;    // received but not yet parsed
  std::size_t at_ = 0;  // position in rest_
  Source source_ = {kMpirunItself, false};
  std::map<Source, std::string> begun_;
};

// How a job failed.
struct JobFailure {
  int rank = kMpirunItself;  // the failed rank, if known
  std::string host;
  std::string phase;  // its last phase before it exited
  std::string what;   // "was killed by signal 9 (Killed)", "ended with exit code 3"
  // By a signal or the loss of its host: the rank could not report the failure itself.
  bool killed = false;
  // Rank 0 has already reported it on the console, before all ranks exited together.
  bool told = false;
  int exit_code = 1;
};

class JobMonitor {
 public:
  explicit JobMonitor(std::vector<std::string> hosts);  // [number of ranks], as planned

  // Returns true if the line should be shown: lines that announce a rank's phase should not.
  bool take(const OutputLine& line);
  // Whether a rank or mpirun has reported a failure. The job will then end soon.
  bool has_failure() const { return seen_failure_; }
  // Whether a rank has reported its end, as each one does.
  bool has_end() const;
  // `code`: mpirun's exit code; 0 if no rank has reported its end. The failure's is a documented
  // one.
  JobFailure failure(int code) const;
  const std::deque<std::string>& last_lines(int rank) const;  // also kMpirunItself

 private:
  struct Rank {
    std::string host, phase;
    bool is_leaving = false;
    std::deque<std::string> lines;  // at most 20
    bool reported_error = false;
  };
  void read_mpirun(const std::string& text);
  void read_blame(const std::string& text);
  int rank_to_blame() const;

  std::map<int, Rank> ranks_;
  int signal_ = 0, killed_ = kMpirunItself;  // the signal, and the rank that it killed
  std::string signal_name_;
  int blamed_ = kMpirunItself, aborted_ = kMpirunItself, exited_ = kMpirunItself;
  int exit_code_ = 0;
  std::string lost_host_;
  bool lost_ = false;
  bool seen_failure_ = false;
};

}  // namespace kiln
