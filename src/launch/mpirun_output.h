// What `mpirun --tag-output` writes, taken apart: whose line it is, what each rank did last, and
// which rank failed how. Text in, structs out.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

constexpr int kMpirunItself = -1;

struct OutputLine {
  int rank = kMpirunItself;
  bool is_error = false;  // standard error of the rank
  std::string text;
};

// Puts lines together again that mpirun cut into tagged pieces and mixed with those of other ranks.
class OutputSplitter {
 public:
  explicit OutputSplitter(std::function<void(const OutputLine&)> take) : take_(std::move(take)) {}
  void feed(std::string_view bytes);
  void finish();  // lines without an end

 private:
  using Source = std::pair<int, bool>;  // rank, is_error

  bool read_tag();
  void add(char c);
  void give(Source source);

  std::function<void(const OutputLine&)> take_;
  std::string rest_;    // not looked at yet
  std::size_t at_ = 0;  // in rest_
  Source source_ = {kMpirunItself, false};
  std::map<Source, std::string> begun_;
};

// How a job that did not end well ended.
struct JobFailure {
  int rank = kMpirunItself;  // the rank to blame, where one is known
  std::string host;
  std::string phase;
  std::string what;     // "was killed by signal 9 (Killed)", "ended with exit code 3"
  bool killed = false;  // by a signal, or with its host: it could not tell anything itself
  int exit_code = 1;
};

class JobMonitor {
 public:
  explicit JobMonitor(std::vector<std::string> hosts);  // [number of ranks], as far as planned

  // True when the line is for people; lines that tell a rank's phase are not.
  bool take(const OutputLine& line);
  // Whether a rank or mpirun told of a failure, after which the job is about to end.
  bool has_failure() const { return seen_failure_; }
  // `code` is mpirun's, not 0.
  JobFailure failure(int code) const;
  const std::deque<std::string>& last_lines(int rank) const;  // of mpirun too

 private:
  struct Rank {
    std::string host, phase;
    std::deque<std::string> lines;  // at most 20
    bool told_error = false;
  };
  struct Signal {
    int rank = kMpirunItself, number = 0;
    std::string name;
  };

  void take_from_mpirun(const std::string& text);
  void take_from_rank(Rank& rank, const OutputLine& line);
  void note_blame(const std::string& text);
  int rank_to_blame() const;
  JobFailure failure_of(int rank, int code) const;

  std::map<int, Rank> ranks_;
  Signal signal_;
  int blamed_ = kMpirunItself, aborted_ = kMpirunItself, exited_ = kMpirunItself;
  int exit_code_ = 0;
  std::string lost_host_;
  bool lost_ = false;
  bool seen_failure_ = false;
};

}  // namespace kiln
