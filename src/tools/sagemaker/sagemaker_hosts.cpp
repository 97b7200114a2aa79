// `kiln train` started by Amazon SageMaker: without options, configured by a folder, on one host or
// several.
//
// Connects the hosts of a job over ssh with a shared key, where a platform has started the same
// program on each host. The leading host starts ranks on the others, which run sshd until the
// leading host reports how the job ended. Uses OpenSSH's programs. Linux only; one thread.
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "base/text.h"
#include "parallel/device/device.h"
#include "report/error_info.h"
#include "tools/commands.h"
#include "tools/launch/mpirun_job.h"
#include "tools/launch/supervised_process.h"
#include "tools/sagemaker/sagemaker_job.h"

namespace kiln {
namespace {

using std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::minutes(20);
constexpr auto kFarewell = std::chrono::seconds(10);
constexpr int kAnswerMs = 30'000;
constexpr const char* kPort = "2222";
constexpr std::string_view kReady = "ready\n";

// Keys and configuration of ssh; the same path on all hosts. The private key is also every host's
// host key, so that impostors are detected.
std::filesystem::path ssh_folder() {
  return sagemaker_folder() / "ssh";
}

struct Line {
  pid_t ssh = -1;
  int input = -1;  // ssh's standard input
};

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kUserError, message);
}

std::string program(const std::string& name) {
  std::string path = find_on_path(name);
  if (path.empty() && std::filesystem::exists("/usr/sbin/" + name)) path = "/usr/sbin/" + name;
  if (path.empty())
    fail("The program " + name +
         " is not installed, but the hosts of this job connect over ssh: install OpenSSH (Debian "
         "and Ubuntu: openssh-client, openssh-server).");
  return path;
}

// Derives the public key from `copy`, that of the file `key`.
std::string public_key(const std::string& copy, const std::string& key) {
  SupervisedProcess process({{program("ssh-keygen"), "-y", "-P", "", "-f", copy}, {}});
  std::optional<int> code;
  while (!(code = process.ended())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (*code != 0) {
    std::string said;
    read_available(process.errors(), said);
    const std::size_t reason = said.rfind(": ") == said.npos ? 0 : said.rfind(": ") + 2;
    const std::size_t end = said.find_last_not_of("\r\n") + 1;
    fail("The file '" + key + "' is not a private key without a passphrase (" +
         said.substr(reason, end - reason) +
         "): create one with `ssh-keygen -t ed25519 -N '' -f FILE`.");
  }
  std::string key_text;
  read_available(process.output(), key_text);
  return key_text;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) fail("The file '" + path.string() + "' cannot be written.");
}

// Returns the interface's IPv4 address; 0.0.0.0 (all interfaces) if the name is empty.
std::string address_of(const std::string& interface) {
  std::string text;
  ifaddrs* all = nullptr;
  if (interface.empty() || ::getifaddrs(&all) != 0) return "0.0.0.0";
  for (const ifaddrs* entry = all; entry != nullptr && text.empty(); entry = entry->ifa_next) {
    if (interface != entry->ifa_name || entry->ifa_addr == nullptr ||
        entry->ifa_addr->sa_family != AF_INET)
      continue;
    std::array<char, INET_ADDRSTRLEN> address{};
    const auto* internet = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    text = ::inet_ntop(AF_INET, &internet->sin_addr, address.data(), address.size());
  }
  ::freeifaddrs(all);
  if (text.empty())
    fail("This host has no network interface '" + interface + "' with an IPv4 address.");
  return text;
}

// Both sides detect a lost peer after half a minute.
std::string client_settings() {
  return "Host *\n  User root\n  Port " + std::string(kPort) + "\n  IdentityFile \"" +
         (ssh_folder() / "key").string() +
         "\"\n  IdentitiesOnly yes\n  BatchMode yes\n  StrictHostKeyChecking yes\n"
         "  GlobalKnownHostsFile /dev/null\n  UserKnownHostsFile \"" +
         (ssh_folder() / "known_hosts").string() +
         "\"\n  ConnectTimeout 10\n  ServerAliveInterval 10\n  ServerAliveCountMax 3\n"
         "  LogLevel ERROR\n";
}

// `interface`: such as eth0; empty: all.
std::string server_settings(const std::string& interface) {
  return "Port " + std::string(kPort) + "\nListenAddress " + address_of(interface) +
         "\nHostKey \"" + (ssh_folder() / "key").string() + "\"\nAuthorizedKeysFile \"" +
         (ssh_folder() / "authorized_keys").string() +
         "\"\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
         "KbdInteractiveAuthentication no\nAllowUsers root\nUsePAM no\nStrictModes no\n"
         "PidFile none\nX11Forwarding no\nAllowTcpForwarding no\nMaxStartups 100\n"
         "ClientAliveInterval 10\nClientAliveCountMax 3\nLogLevel ERROR\n";
}

std::string result_path() {
  return (ssh_folder() / "result").string();
}

// Returns the process id of ssh; -1 if it cannot be started.
pid_t start_ssh(std::vector<std::string> words, int input, int output) {
  const std::vector<char*> pointers = exec_words(words);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  if (::posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ) != 0)
    child = -1;
  ::posix_spawn_file_actions_destroy(&actions);
  return child;
}

bool says_ready(int descriptor) {
  std::string text;
  pollfd wait{descriptor, POLLIN, 0};
  while (text.size() < kReady.size() && ::poll(&wait, 1, kAnswerMs) > 0) {
    char byte = 0;
    if (::read(descriptor, &byte, 1) != 1) return false;
    text += byte;
  }
  return text == kReady;
}

// Closes the connection. ssh then exits once the other side has read everything; it is killed if
// that takes longer than `patience`.
void hang_up(const Line& line, std::chrono::seconds patience) {
  ::close(line.input);
  if (line.ssh <= 0) return;  // kill() would signal more than one process
  const auto last = steady_clock::now() + patience;
  while (::waitpid(line.ssh, nullptr, WNOHANG) == 0) {
    if (steady_clock::now() > last) ::kill(line.ssh, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Opens a connection that writes to the file `result` on `host`, which wait_for_result() reads
// there. Empty if the host does not answer.
std::optional<Line> open_line(const std::string& host) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0)
    throw Error(ErrorCode::kFailedToCompleteOperation,
                "Cannot create a pipe: too many open files. Raise the limit (ulimit -n).");
  const Line line = {start_ssh({program("ssh"), "-F", (ssh_folder() / "ssh_config").string(), "--",
                                host, "echo ready; cat > '" + result_path() + "'"},
                               to[0], from[1]),
                     to[1]};
  ::close(to[0]);
  ::close(from[1]);
  const bool ready = line.ssh > 0 && says_ready(from[0]);
  ::close(from[0]);
  if (ready) return line;
  hang_up(line, std::chrono::seconds(0));
  return std::nullopt;
}

// The leading host's connections to the others. If the leading host disappears for any reason
// before report(), the others notice.
class HeldHosts {
 public:
  // Returns when all hosts have answered. They may start up to 20 minutes later than this one;
  // after that throws Error kTimeoutOccured.
  explicit HeldHosts(const std::vector<std::string>& others) {
    const auto last = steady_clock::now() + kPatience;
    for (const std::string& host : others) {
      std::optional<Line> line;
      while (!(line = open_line(host))) {
        if (steady_clock::now() > last)
          throw Error(ErrorCode::kTimeoutOccured, "The host " + host +
                                                      " could not be reached over ssh within 20 "
                                                      "minutes: check its log, and open port " +
                                                      kPort + " between the hosts.");
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
      lines_.push_back(*line);
    }
  }
  // Delivers the result, if report() was called, and closes the connections.
  ~HeldHosts() {
    for (const Line& line : lines_) hang_up(line, kFarewell);
  }
  HeldHosts(const HeldHosts&) = delete;
  HeldHosts& operator=(const HeldHosts&) = delete;

  // `failure`: the message; empty on success.
  void report(int exit_code, const std::string& failure) {
    const std::string text = std::to_string(exit_code) + "\n" + failure;
    std::signal(SIGPIPE, SIG_IGN);  // a host that has disappeared needs no result
    for (const Line& line : lines_)
      if (::write(line.input, text.data(), text.size()) < 0) continue;
  }

 private:
  std::vector<Line> lines_;
};

// Runs sshd until the leading host closes its connection, and returns what it has written, the
// job's result. By then all processes started here have exited. Ignores stop signals, since the
// leading host gets them too. Throws Error if sshd exits or the leading host does not connect in
// time.
std::string wait_for_result(const std::string& leader) {
  SupervisedProcess process(
      {{program("sshd"), "-D", "-e", "-f", (ssh_folder() / "sshd_config").string()}, {}});
  const Descriptor result(::open(result_path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);
  std::string said, complaints, ignored;
  bool is_held = false;
  for (const auto last = steady_clock::now() + kPatience;;) {
    pollfd line{result.number(), POLLIN, 0};
    ::poll(&line, 1, 500);
    is_held = is_held || line.revents != 0;
    read_available(result.number(), said);
    read_available(process.errors(), complaints);
    read_available(process.output(), ignored);
    if ((line.revents & POLLHUP) != 0) return said;
    if (process.ended()) fail("sshd exited: " + complaints);
    if (!is_held && steady_clock::now() > last)
      throw Error(ErrorCode::kTimeoutOccured,
                  "The leading host " + leader +
                      " did not connect over ssh within 20 minutes: check its log.");
  }
}

void set_unless_given(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), /*overwrite=*/0);
}

// Sets up ssh between several hosts in a new folder. The key is KILN_HOSTS_KEY, or else
// /etc/kiln/hosts_key, in images built for such jobs. Throws Error kUserError if the key or OpenSSH
// is missing.
void set_up_ssh(const SageMakerJob& job) {
  const std::string given = environment("KILN_HOSTS_KEY");
  const std::string key = given.empty() ? "/etc/kiln/hosts_key" : given;
  const std::filesystem::path folder = ssh_folder();
  std::error_code failure;
  if (!is_there(key))
    fail("This job has several hosts, which connect over ssh, but there is no private key at '" +
         key +
         "': build one into a private image (--build-arg SAGEMAKER_HOSTS_KEY=1), set "
         "KILN_HOSTS_KEY to another path, or use one host.");
  std::filesystem::remove_all(folder, failure);
  std::filesystem::create_directories(folder, failure);
  std::filesystem::create_directories("/run/sshd", failure);
  std::filesystem::copy_file(key, folder / "key", failure);
  std::filesystem::permissions(folder / "key", std::filesystem::perms::owner_read, failure);
  const std::string public_half = public_key((folder / "key").string(), key);
  write(folder / "authorized_keys", public_half);
  write(folder / "known_hosts", "* " + public_half);
  write(folder / "ssh_config", client_settings());
  write(folder / "sshd_config", server_settings(job.network_interface));
  if (::mkfifo(result_path().c_str(), 0600) != 0)
    fail("The file '" + result_path() + "' cannot be created.");
}

// Reads and logs the folder's settings, sets the environment variables that they define for the
// ranks, and removes an earlier run's failure note. Throws what sagemaker_job() throws.
SageMakerJob open_sagemaker_job(const std::vector<std::string>& arguments, Log& log) {
  remove_failure_note();
  SageMakerJob job = sagemaker_job(sagemaker_folder(), arguments, ask_nvidia_driver().num_devices);
  const char* name = std::getenv("TRAINING_JOB_NAME");
  log.info(formatted("SageMaker job %s, host %s of %zu", name == nullptr ? "(unnamed)" : name,
                     job.current_host.c_str(), job.hosts.size()));
  if (!job.command.empty()) log.info("equivalent command: kiln " + shell_words(job.command));
  for (const std::string& warning : job.warnings) log.warning(warning);
  if (job.mpi.names.empty()) return job;
  // To mpirun, this process's child, and through it to the ranks of all hosts.
  for (const auto& [variable, value] : job.mpi.variables)
    ::setenv(variable.c_str(), value.c_str(), /*overwrite=*/1);
  const std::string before = environment(kPassOn), names = joined(job.mpi.names, ",");
  ::setenv(kPassOn, (before.empty() ? names : before + "," + names).c_str(), /*overwrite=*/1);
  log.info("variables passed to the ranks of all hosts: " + joined(job.mpi.names, ", "));
  return job;
}

// On the other hosts: returns the run's exit code. Throws FailedElsewhere if it is not 0, Error
// kTimeoutOccured if the leading host does not connect or disappears.
int follow_sagemaker_job(const SageMakerJob& job, Log& log) {
  const std::string& leader = job.hosts.front();
  log.info("waiting for host " + leader + ", which starts ranks here over ssh");
  const std::string result = wait_for_result(leader);
  const std::size_t end = result.find('\n');
  if (end == result.npos)
    throw Error(ErrorCode::kTimeoutOccured,
                "The leading host " + leader +
                    " disappeared without reporting the job's result: check its log.");
  const int exit_code = std::atoi(result.c_str());
  if (exit_code == 0) {
    log.info("host " + leader + " finished the job");
    return 0;
  }
  const std::string failure = result.substr(end + 1);
  // A note left by a rank of this host is more specific.
  if (!is_there(sagemaker_folder() / "output/failure")) leave_failure_note(failure);
  throw FailedElsewhere("host " + leader, failure, exit_code);
}

// Runs a job of several hosts from the leading one, where mpirun uses ssh and the job's network
// interface, and reports to the others how it ended.
int lead_sagemaker_job(const SageMakerJob& job, Process& process) {
  set_unless_given("OMPI_MCA_plm_rsh_agent",
                   program("ssh") + " -F " + (ssh_folder() / "ssh_config").string());
  set_unless_given("OMPI_MCA_plm_rsh_no_tree_spawn", "1");
  if (!job.network_interface.empty())
    for (const char* name :
         {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "NCCL_SOCKET_IFNAME"})
      set_unless_given(name, job.network_interface);
  HeldHosts others({job.hosts.begin() + 1, job.hosts.end()});
  try {
    const int code = dispatch(job.invocation, process);
    others.report(code, code == 0 ? "" : failure_note());
    return code;
  } catch (...) {
    const FailureReport failure = report_failure(std::current_exception());
    others.report(failure.exit_code, failure.messages.front());
    throw;
  }
}

}  // namespace

int run_in_sagemaker(const std::vector<std::string>& arguments, Process& process) {
  const SageMakerJob job = open_sagemaker_job(arguments, process.log);
  require_faultless(job.invocation, process);  // before hosts connect
  process.error_info.reset();                  // the run has not started yet
  if (job.hosts.size() == 1) return dispatch(job.invocation, process);
  set_up_ssh(job);
  return job.leads() ? lead_sagemaker_job(job, process) : follow_sagemaker_job(job, process.log);
}

}  // namespace kiln
