#include "tools/launch/supervised_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <thread>

#include "base/error.h"

namespace kiln {
namespace {

using std::chrono::steady_clock;

// Time to wait for killed processes: one that is blocked in I/O on a dead disk never exits.
constexpr auto kPatience = std::chrono::seconds(10);

// The signals that the supervisor waits for.
constexpr std::array kWaited = {SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD};

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Maps every process to its parent. The second field of /proc/PID/stat, the name in parentheses,
// may contain any character, so fields are counted from its end.
std::map<pid_t, pid_t> all_parents() {
  std::map<pid_t, pid_t> parents;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failure)) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t end = text.rfind(") ");
    if (end != text.npos && end + 4 < text.size())
      parents[process] = std::atoi(text.c_str() + end + 4);
  }
  return parents;
}

bool descends_from(pid_t process, pid_t ancestor, const std::map<pid_t, pid_t>& parents) {
  for (std::size_t steps = 0; steps <= parents.size(); ++steps) {
    const auto found = parents.find(process);
    if (found == parents.end()) return false;
    if (found->second == ancestor) return true;
    process = found->second;
  }
  return false;
}

// Kills all descendants and waits, for at most kPatience, until they are gone. Only for a process
// that adopts orphans: once it has no children, it has no descendants.
void kill_descendants() {
  const auto give_up = steady_clock::now() + kPatience;
  while (steady_clock::now() < give_up) {
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0) return;
    const std::map<pid_t, pid_t> parents = all_parents();
    for (const auto& [process, parent] : parents)
      if (descends_from(process, ::getpid(), parents)) ::kill(process, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// A pipe that the process `owner`, which created it, reads.
struct Ends {
  int read = -1, write = -1;
  pid_t owner = ::getpid();
};

bool open_pipe(Ends& ends) {
  int descriptors[2];
  if (::pipe2(descriptors, O_CLOEXEC) != 0) return false;
  ends.read = descriptors[0];
  ends.write = descriptors[1];
  ::fcntl(ends.read, F_SETFL, O_NONBLOCK);
  return true;
}

void die_with_parent(pid_t parent, int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
}

// The arguments of execve(). Created before fork(), because in the child a lock on the environment
// or the heap that another thread held is never released.
class Execution {
 public:
  explicit Execution(const ProgramCall& call)
      : words_(call.words), complaint_("cannot run " + words_[0] + ": ") {
    const auto is_replaced = [&](std::string_view variable) {
      const std::string_view name = variable.substr(0, variable.find('='));
      return std::ranges::any_of(call.environment, [&](auto& it) { return it.first == name; });
    };
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (!is_replaced(*variable)) environment_.emplace_back(*variable);
    for (const auto& [name, value] : call.environment) environment_.push_back(name + "=" + value);
    word_pointers_ = exec_words(words_);
    environment_pointers_ = exec_words(environment_);
  }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Call in the child. Returns only if the program cannot be run, after writing the reason to
  // standard error.
  void run() const {
    ::execve(word_pointers_[0], word_pointers_.data(), environment_pointers_.data());
    complain(STDERR_FILENO);
  }

  // Writes why the program cannot be run, according to errno.
  void complain(int descriptor) const {
    const std::string_view reason = ::strerrordesc_np(errno);
    for (const std::string_view part : {std::string_view(complaint_), reason, {"\n"}})
      if (::write(descriptor, part.data(), part.size()) < 0) return;
  }

 private:
  std::vector<std::string> words_, environment_;
  std::string complaint_;
  std::vector<char*> word_pointers_, environment_pointers_;
};

// Runs in the supervisor until the program exits, then kills its descendants and exits with its
// code. On SIGTERM kills everything at once; forwards SIGUSR1 and SIGUSR2 to the program. All
// signals in `waited` must be blocked.
[[noreturn]] void keep(pid_t program, const sigset_t& waited) {
  while (true) {
    const int signal = ::sigwaitinfo(&waited, nullptr);
    if (signal == SIGUSR1 || signal == SIGUSR2) ::kill(program, signal);
    int status = signal == SIGTERM ? SIGKILL : 0;
    bool over = signal == SIGTERM;
    int ended_status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &ended_status, WNOHANG)) > 0;) {
      if (ended != program) continue;
      over = true;
      status = ended_status;
    }
    if (!over) continue;
    kill_descendants();
    ::_exit(code_of(status));
  }
}

[[noreturn]] void become_keeper(const Execution& execution, const Ends& output, const Ends& errors,
                                const sigset_t& waited) {
  ::setpgid(0, 0);  // so that Ctrl-C reaches only the parent
  die_with_parent(output.owner, SIGTERM);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int signal : kWaited) ::signal(signal, SIG_DFL);
  const pid_t supervisor = ::getpid();
  const pid_t program = ::fork();
  if (program == 0) {
    die_with_parent(supervisor, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGUSR2, SIG_IGN);  // a request for a checkpoint must not end mpirun while it starts
    const int empty = ::open("/dev/null", O_RDONLY);
    ::dup2(empty, STDIN_FILENO);
    ::dup2(output.write, STDOUT_FILENO);
    ::dup2(errors.write, STDERR_FILENO);
    execution.run();
    ::_exit(127);
  }
  if (program < 0) {
    execution.complain(errors.write);
    ::_exit(127);
  }
  ::close(output.write);
  ::close(errors.write);
  keep(program, waited);
}

}  // namespace

bool read_available(int descriptor, std::string& text) {
  std::array<char, 1 << 16> bytes{};
  ssize_t count = 0;
  while ((count = ::read(descriptor, bytes.data(), bytes.size())) > 0)
    text.append(bytes.data(), static_cast<std::size_t>(count));
  return count < 0;
}

SupervisedProcess::SupervisedProcess(const ProgramCall& call) {
  const Execution execution(call);
  // If the supervisor is killed, this process adopts its children.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t waited, before;
  sigemptyset(&waited);
  for (const int signal : kWaited) sigaddset(&waited, signal);
  Ends output, errors;
  if (open_pipe(output) && open_pipe(errors)) {
    ::pthread_sigmask(SIG_BLOCK, &waited, &before);
    supervisor_ = ::fork();
    if (supervisor_ == 0) become_keeper(execution, output, errors, waited);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::close(output.write);
    ::close(errors.write);
  }
  output_ = output.read;
  errors_ = errors.read;
  if (supervisor_ < 0)
    throw Error(ErrorCode::kFailedToCompleteOperation,
                call.words.front() + " cannot be started (" + std::strerror(errno) +
                    "): raise the limits on processes (ulimit -u) and open files (ulimit -n).");
}

SupervisedProcess::~SupervisedProcess() {
  kill();
  ::close(output_);
  ::close(errors_);
}

void SupervisedProcess::send(int signal) {
  if (!code_) ::kill(supervisor_, signal);
}

std::optional<int> SupervisedProcess::ended() {
  int status = 0;
  if (!code_ && ::waitpid(supervisor_, &status, WNOHANG) == supervisor_) {
    code_ = code_of(status);
    // If the supervisor was killed, this process has adopted its children. Not otherwise, because
    // this also kills children that do not come from the supervisor.
    if (WIFSIGNALED(status)) kill_descendants();
  }
  return code_;
}

int SupervisedProcess::kill() {
  send(SIGTERM);
  while (!ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return *code_;
}

}  // namespace kiln
