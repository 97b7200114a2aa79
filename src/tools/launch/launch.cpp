#include "tools/commands.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/platform/installation.h"
#include "base/platform/launch_environment.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "parallel/device/device.h"
#include "record/earlier_run.h"
#include "report/error_info.h"
#include "tools/launch/mpirun_job.h"

namespace kiln {
namespace {

using std::chrono::steady_clock;

// Time allowed for mpirun to end the other ranks after one fails.
constexpr auto kEndOfJob = std::chrono::seconds(20);

// While it exists, stop signals and checkpoint requests (SIGUSR2) to this process are read here and
// have no other effect.
class JobSignals {
 public:
  JobSignals() {
    sigemptyset(&signals_);
    for (const int signal : kStopSignals) sigaddset(&signals_, signal);
    sigaddset(&signals_, SIGUSR2);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    descriptor_ = ::signalfd(-1, &signals_, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  ~JobSignals() {
    while (next() != 0) {
    }
    ::close(descriptor_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  int descriptor() const { return descriptor_; }
  int next() {  // 0: none
    signalfd_siginfo info{};
    return ::read(descriptor_, &info, sizeof info) == sizeof info ? info.ssi_signo : 0;
  }

 private:
  sigset_t signals_, before_;
  int descriptor_ = -1;
};

// 70_mpi_log.txt: all output of mpirun, the ranks and this command.
class MpiLog {
 public:
  MpiLog(const LaunchConfig& config, Log& log)
      : path_((std::filesystem::path(config.log_path) / "70_mpi_log.txt").string()) {
    try {
      make_folders(config.log_path);
      file_.reset(std::fopen(path_.c_str(), "we"));
      if (file_ != nullptr) return;
      throw Error(ErrorCode::kFailedToWriteOutputs,
                  "The log file " + quoted_path(path_) + " cannot be written: " +
                      system_words(errno) + ". Set --log-path to a writable folder.");
    } catch (const Error&) {
      if (config.settings.is_given(options::kLogPath)) throw;
    }
    log.warning("the folder '" + config.log_path + "' is not writable, so there is no " +
                "70_mpi_log.txt; use --log-path to choose another");
  }

  const std::string& path() const { return path_; }

  void add(const std::string& who, const std::string& text) {
    if (file_ == nullptr) return;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm parts{};
    ::localtime_r(&now.tv_sec, &parts);
    std::array<char, 32> time{};
    std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S", &parts);
    std::fprintf(file_.get(), "%s,%03ld %-8s %s\n", time.data(), now.tv_nsec / 1'000'000,
                 who.c_str(), text.c_str());
  }
  void flush() {
    if (file_ != nullptr) std::fflush(file_.get());
  }

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
};

// When a file was written; the least time if it is not there.
std::filesystem::file_time_type time_of(const std::filesystem::path& path) {
  std::error_code absent;
  return std::filesystem::last_write_time(path, absent);
}

std::string name_of(int rank) {
  return rank == kMpirunItself ? "mpirun" : "rank " + std::to_string(rank);
}

bool is_stop_code(int code) {
  return std::find(kStopSignals.begin(), kStopSignals.end(), code - 128) != kStopSignals.end();
}

class Launch {
 public:
  Launch(const LaunchConfig& config, const MpirunJob& job, Log& log)
      : config_(config),
        log_(log),
        mpi_log_(config, log),
        error_info_(error_info_path(config.log_path)),
        error_info_before_(time_of(error_info_)),
        call_(mpirun_call(job)),
        story_(planned_hosts(job)),
        output_([this](const OutputLine& line) { show(line); }),
        errors_([this](const OutputLine& line) { show(line); }) {
    say(std::string(program_version()) + ", launch: " + plural(job.num_ranks, "rank", "ranks") +
        (job.hosts.empty() ? "" : " on " + std::to_string(job.hosts.size()) + " hosts"));
    mpi_log_.add("launch", for_people(joined(call_.words, " ")));
  }

  int run(JobSignals& signals) {
    SupervisedProcess process(call_);
    return conclude(watch(signals, process));
  }

 private:
  void say(const std::string& text) {
    log_.info(text);
    mpi_log_.add("launch", text);
  }

  void show(const OutputLine& line) {
    mpi_log_.add(name_of(line.rank), line.text);
    if (story_.take(line) && line.rank == 0) log_.echo(line.text, line.is_error);
  }

  void read_output(const SupervisedProcess& process) {
    std::string output, errors;
    output_open_ = output_open_ && read_available(process.output(), output);
    errors_open_ = errors_open_ && read_available(process.errors(), errors);
    output_.feed(output);
    errors_.feed(errors);
    mpi_log_.flush();
  }

  void take_signal(int signal, SupervisedProcess& process) {
    if (signal == SIGUSR2) {
      mpi_log_.add("launch", "SIGUSR2: requesting a checkpoint from the ranks.");
      return process.send(SIGUSR2);
    }
    if (stop_ == 0) {
      stop_ = signal;
      stopped_at_ = steady_clock::now();
      process.send(SIGUSR1);
      return say("Signal " + std::to_string(signal) +
                 ": the ranks will save and stop; a second signal kills them.");
    }
    const std::chrono::duration<double> since = steady_clock::now() - stopped_at_;
    if (repeats_stop(stop_, signal, since.count())) return;
    killed_ = true;
    process.kill();
    say("Signal " + std::to_string(signal) + " received again: the ranks were killed.");
  }

  // Runs until all processes have ended; returns mpirun's exit code.
  int watch(JobSignals& signals, SupervisedProcess& process) {
    std::optional<steady_clock::time_point> last_moment;
    std::optional<int> code;
    while (!code) {
      std::array<pollfd, 2> waits = {
          {{output_open_ ? process.output() : -1, POLLIN, 0}, {signals.descriptor(), POLLIN, 0}}};
      ::poll(waits.data(), waits.size(), output_open_ ? 200 : 10);
      if (const int signal = signals.next(); signal != 0) take_signal(signal, process);
      read_output(process);
      if (story_.has_failure() && !last_moment) last_moment = steady_clock::now() + kEndOfJob;
      if (last_moment && steady_clock::now() > *last_moment) {
        say("mpirun did not end the job after the failure: killing it.");
        process.kill();
      }
      code = process.ended();
    }
    read_output(process);
    output_.finish();
    errors_.finish();
    return *code;
  }

  std::string sentence(const JobFailure& failure) const {
    const std::string host = failure.host.empty() ? "" : " on host " + failure.host;
    const std::string end = "; all output of the job is in " + mpi_log_.path() + ".";
    if (failure.rank == kMpirunItself)
      return (host.empty() ? "mpirun" : "A rank" + host) + " " + failure.what +
             "; its last output is above" + end;
    const std::string rank = std::to_string(failure.rank);
    return "Rank " + rank + host + " " + failure.what +
           (failure.phase.empty() ? " before reporting a phase"
                                  : " in the phase '" + failure.phase + "'") +
           "; its last output is above, its log is " + config_.log_path + "/70_driver_log_" + rank +
           ".txt" + end;
  }

  void report(const JobFailure& failure) {
    const std::string text = sentence(failure);
    if (failure.told) {
      log_.echo("All output of the job is in " + mpi_log_.path() + ".", /*is_error=*/true);
    } else {
      std::string title = "Last lines of " + name_of(failure.rank);
      if (!failure.host.empty()) title += " on host " + failure.host;
      if (!failure.phase.empty()) title += ", phase '" + failure.phase + "'";
      log_.echo(title + ":", /*is_error=*/true);
      const auto& lines = story_.last_lines(failure.rank);
      for (const std::string& line : lines) log_.echo("  | " + line, /*is_error=*/true);
      if (lines.empty()) log_.echo("  (no output)", /*is_error=*/true);
      log_.error(text);
    }
    mpi_log_.add("launch", text);
    // The rank may have left its failure note in another pod, so this process leaves one too.
    std::string of_rank;
    try {
      if (time_of(error_info_) != error_info_before_)
        of_rank = message_of_error_info(read_file(error_info_, 1 << 20));
    } catch (const std::exception&) {  // then it has reported none
    }
    leave_failure_note(of_rank.empty() ? text : of_rank);
    if (!of_rank.empty()) return;
    const auto code = ErrorCode::kFailedToCompleteOperation;
    write_error_info(error_info_,
                     error_info_of(std::string(error_id(code)), static_cast<int>(code), text),
                     log_);
  }

  int conclude(int code) {
    if (stop_ != 0 && (killed_ || code == 0)) return 128 + stop_;
    if (code == 0 && story_.has_end()) return 0;
    const JobFailure failure = story_.failure(code);
    const bool asked_to = stop_ != 0 && is_stop_code(failure.exit_code);
    if (asked_to || (!failure.killed && is_stop_code(failure.exit_code))) {
      say("All ranks were stopped by a signal.");
      return stop_ != 0 ? 128 + stop_ : failure.exit_code;
    }
    report(failure);
    return failure.exit_code;
  }

  const LaunchConfig& config_;
  Log& log_;
  MpiLog mpi_log_;
  const std::filesystem::path error_info_;
  const std::filesystem::file_time_type error_info_before_;
  ProgramCall call_;
  JobMonitor story_;
  // mpirun's own messages go to standard error, where no rank's unfinished line precedes them.
  OutputSplitter output_, errors_;
  bool output_open_ = true, errors_open_ = true;
  int stop_ = 0;  // the first stop signal
  steady_clock::time_point stopped_at_;
  bool killed_ = false;
};

// Whatever started this process must not have started others that would launch ranks, too. With
// hosts, it is the one of them that does.
void require_no_other_launcher(const LaunchConfig& config) {
  const LaunchEnvironment launcher = detect_launch_environment();
  if (launcher.mpi)
    throw Error(
        ErrorCode::kUserError,
        "This process is already a rank of an MPI job, which determines the number of ranks: "
        "omit --ranks, or run `kiln launch` outside of mpirun and srun.");
  if (config.hosts.empty() && launcher.expected_size > 1)
    throw Error(ErrorCode::kUserError,
                "This job would launch ranks of its own, but " + launcher.expectation);
}

int choose_num_ranks(const LaunchConfig& config) {
  if (config.ranks > 0) return config.ranks;
  int slots = 0;
  for (const RankHost& host : config.hosts) slots += host.slots;
  if (slots > 0) return slots;
  if (config.device == DeviceChoice::kCpu)
    throw Error(ErrorCode::kUserError,
                "--ranks auto counts GPUs, but --device is cpu: set a number of ranks.");
  const NvidiaDriver driver = ask_nvidia_driver();
  if (driver.num_devices > 0) return driver.num_devices;
  throw Error(ErrorCode::kUserError,
              "--ranks auto starts one rank per GPU of this host, but there is none" +
                  (driver.fault.empty() ? "" : " (" + driver.fault + ")") +
                  ": set a number of ranks.");
}

// Whether this process is a rank started by `kiln launch`.
bool is_launched() {
  return std::getenv("KILN_LAUNCHED") != nullptr && detect_launch_environment().mpi;
}

}  // namespace

void lock_log_folder(const std::string& log_path, Process& process) {
  try {
    make_folders(log_path);
  } catch (const Error&) {
    return;  // whoever writes there will say so
  }
  // Nobody reads or writes it: on SMB a lock keeps other descriptors from doing so.
  const std::filesystem::path path = std::filesystem::path(log_path) / ".kiln-lock";
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  if (lock.number() < 0 || !is_file(path)) return;
  const LockResult result = lock_soon(lock.number(), [&] {
    process.log.info("Waiting for the run that writes its logs to '" + log_path + "' to end.");
  });
  if (result == LockResult::kInUse) {
    process.error_info.reset();
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "The log folder '" + log_path + "' is in use by another run, or a host that died " +
                    "holds its lock. Wait until it ends, or give each run its own --log-path.");
  }
  if (result == LockResult::kNoLocks)
    process.log.info("The file system of '" + log_path + "' has no locks, so nothing would " +
                     "notice a second run that writes its logs there.");
  process.log_folder = std::move(lock);
  if (!is_launched() && !collects_outputs()) set_aside(log_path, "70_");
}

bool open_driver_log(const std::string& log_path, bool given, Process& process) try {
  make_folders(log_path);
  process.log.open_file(std::filesystem::path(log_path) /
                        formatted("70_driver_log_%d.txt", process.world.rank()));
  return true;
} catch (const Error&) {
  if (given) throw;
  process.log.warning(
      "the folder '" + log_path +
      "' is not writable, so no log files are written; use --log-path to choose another");
  return false;
}

std::optional<LaunchConfig> launch_of(const TrainConfig& config) {
  const RanksConfig& ranks = config.ranks;
  if (!ranks.launch || is_launched()) return std::nullopt;
  const bool counts_gpus = *ranks.launch == 0;  // without one that is usable, mpirun is not needed
  if (counts_gpus && (ranks.device == DeviceChoice::kCpu || ask_nvidia_driver().num_devices == 0))
    return std::nullopt;
  return LaunchConfig{.ranks = *ranks.launch,
                      .device = ranks.device,
                      .log_path = config.output.log_path,
                      .rank_arguments = ranks.arguments,
                      .settings = config.settings};
}

int run(const LaunchConfig& config, Process& process) {
  require_no_other_launcher(config);
  // Before any library starts a thread: one started earlier would not have the signals blocked.
  JobSignals signals;
  MpirunJob job;
  job.num_ranks = choose_num_ranks(config);
  job.hosts = config.hosts;
  provide_open_files(job.num_ranks);
  require_temporary_folder();
  lock_log_folder(config.log_path, process);
  process.log_folder = {};  // from here on rank 0 holds it
  job.words = {std::filesystem::read_symlink("/proc/self/exe").string()};
  job.words.insert(job.words.end(), config.rank_arguments.begin(), config.rank_arguments.end());
  const int code = Launch(config, job, process.log).run(signals);
  process.error_info.reset();
  return code;
}

}  // namespace kiln
