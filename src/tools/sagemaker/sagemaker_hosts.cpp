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

struct SshPlace {
  std::filesystem::path folder;  // for keys and configuration; the same path on all hosts
  std::filesystem::path
      key;  // private; also used as every host's host key, so that impostors are detected
  std::string interface;  // network interface, such as eth0; empty: all
};

struct JobEnd {
  int exit_code = 0;
  std::string text;  // the failure's message; empty on success
};

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

std::string read_rest(int descriptor) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (ssize_t count = 0; (count = ::read(descriptor, bytes.data(), bytes.size())) > 0;)
    text.append(bytes.data(), static_cast<std::size_t>(count));
  return text;
}

// Derives the public key from the copy of the private key.
std::string public_key(const SshPlace& place) {
  const std::string copy = (place.folder / "key").string();
  SupervisedProcess process({{program("ssh-keygen"), "-y", "-P", "", "-f", copy}, {}});
  std::optional<int> code;
  while (!(code = process.ended())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (*code != 0) {
    const std::string said = read_rest(process.errors());
    const std::size_t reason = said.rfind(": ") == said.npos ? 0 : said.rfind(": ") + 2;
    const std::size_t end = said.find_last_not_of("\r\n") + 1;
    fail("The file '" + place.key.string() + "' is not a private key without a passphrase (" +
         said.substr(reason, end - reason) +
         "): create one with `ssh-keygen -t ed25519 -N '' -f FILE`.");
  }
  return read_rest(process.output());
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
std::string client_settings(const std::filesystem::path& folder) {
  return "Host *\n  User root\n  Port " + std::string(kPort) + "\n  IdentityFile \"" +
         (folder / "key").string() +
         "\"\n  IdentitiesOnly yes\n  BatchMode yes\n  StrictHostKeyChecking yes\n"
         "  GlobalKnownHostsFile /dev/null\n  UserKnownHostsFile \"" +
         (folder / "known_hosts").string() +
         "\"\n  ConnectTimeout 10\n  ServerAliveInterval 10\n  ServerAliveCountMax 3\n"
         "  LogLevel ERROR\n";
}

std::string server_settings(const SshPlace& place) {
  return "Port " + std::string(kPort) + "\nListenAddress " + address_of(place.interface) +
         "\nHostKey \"" + (place.folder / "key").string() + "\"\nAuthorizedKeysFile \"" +
         (place.folder / "authorized_keys").string() +
         "\"\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
         "KbdInteractiveAuthentication no\nAllowUsers root\nUsePAM no\nStrictModes no\n"
         "PidFile none\nX11Forwarding no\nAllowTcpForwarding no\nMaxStartups 100\n"
         "ClientAliveInterval 10\nClientAliveCountMax 3\nLogLevel ERROR\n";
}

std::filesystem::path result_path(const SshPlace& place) {
  return place.folder / "result";
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

// Opens a connection that writes to the file `result` on `host`, which follow() reads there. Empty
// if the host does not answer.
std::optional<Line> open_line(const SshPlace& place, const std::string& host) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0)
    throw Error(ErrorCode::kFailedToCompleteOperation,
                "Cannot create a pipe: too many open files. Raise the limit (ulimit -n).");
  const Line line = {start_ssh({program("ssh"), "-F", (place.folder / "ssh_config").string(), "--",
                                host, "echo ready; cat > '" + result_path(place).string() + "'"},
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
// before tell(), the others notice.
class HeldHosts {
 public:
  // Returns when all hosts have answered. They may start up to 20 minutes later than this one;
  // after that throws Error kTimeoutOccured.
  HeldHosts(const SshPlace& place, const std::vector<std::string>& others) {
    const auto last = steady_clock::now() + kPatience;
    for (const std::string& host : others) {
      std::optional<Line> line;
      while (!(line = open_line(place, host))) {
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
  // Delivers the result, if tell() was called, and closes the connections.
  ~HeldHosts() {
    for (const Line& line : lines_) hang_up(line, kFarewell);
  }
  HeldHosts(const HeldHosts&) = delete;
  HeldHosts& operator=(const HeldHosts&) = delete;

  void tell(const JobEnd& end) {
    const std::string text = std::to_string(end.exit_code) + "\n" + end.text;
    std::signal(SIGPIPE, SIG_IGN);  // a host that has disappeared needs no result
    for (const Line& line : lines_)
      if (::write(line.input, text.data(), text.size()) < 0) continue;
  }

 private:
  std::vector<Line> lines_;
};

// Runs sshd and reads the file to which the leading host writes the job's result.
class Server {
 public:
  explicit Server(const SshPlace& place)
      : process_(
            {{program("sshd"), "-D", "-e", "-f", (place.folder / "sshd_config").string()}, {}}),
        result_(::open(result_path(place).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~Server() { ::close(result_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Returns what the leading host has written when it closes the connection. Throws Error if sshd
  // exits or the leading host does not connect in time.
  std::string wait(const std::string& leader) {
    std::string said;
    for (const auto last = steady_clock::now() + kPatience;;) {
      pollfd line{result_, POLLIN, 0};
      ::poll(&line, 1, 500);
      held_ = held_ || line.revents != 0;
      said += read_rest(result_);
      complaints_ += read_rest(process_.errors());
      read_rest(process_.output());
      if ((line.revents & POLLHUP) != 0) return said;
      if (process_.ended()) fail("sshd exited: " + complaints_);
      if (!held_ && steady_clock::now() > last)
        throw Error(ErrorCode::kTimeoutOccured,
                    "The leading host " + leader +
                        " did not connect over ssh within 20 minutes: check its log.");
    }
  }

 private:
  SupervisedProcess process_;
  int result_;
  bool held_ = false;
  std::string complaints_;
};

// Passes the variables to mpirun, this process's child, and through it to the ranks of all hosts.
void pass_on(const MpiOptions& options, Log& log) {
  if (options.names.empty()) return;
  for (const auto& [name, value] : options.variables)
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  const std::string before = environment(kPassOn), names = joined(options.names, ",");
  ::setenv(kPassOn, (before.empty() ? names : before + "," + names).c_str(), /*overwrite=*/1);
  log.info("variables passed to the ranks of all hosts: " + joined(options.names, ", "));
}

void set_unless_given(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), /*overwrite=*/0);
}

// Recreates the folder. Throws Error kUserError if the key or OpenSSH is missing.
void set_up_ssh(const SshPlace& place) {
  std::error_code failure;
  if (!is_there(place.key))
    fail("This job has several hosts, which connect over ssh, but there is no private key at '" +
         place.key.string() +
         "': build one into a private image (--build-arg SAGEMAKER_HOSTS_KEY=1), set "
         "KILN_HOSTS_KEY to another path, or use one host.");
  std::filesystem::remove_all(place.folder, failure);
  std::filesystem::create_directories(place.folder, failure);
  std::filesystem::create_directories("/run/sshd", failure);
  std::filesystem::copy_file(place.key, place.folder / "key", failure);
  std::filesystem::permissions(place.folder / "key", std::filesystem::perms::owner_read, failure);
  const std::string key = public_key(place);
  write(place.folder / "authorized_keys", key);
  write(place.folder / "known_hosts", "* " + key);
  write(place.folder / "ssh_config", client_settings(place.folder));
  write(place.folder / "sshd_config", server_settings(place));
  if (::mkfifo(result_path(place).c_str(), 0600) != 0)
    fail("The file '" + result_path(place).string() + "' cannot be created.");
}

// The ssh command for the other hosts: program and arguments, without the host name.
std::string ssh_command(const SshPlace& place) {
  return program("ssh") + " -F " + (place.folder / "ssh_config").string();
}

// On any other host: runs sshd until the job has ended. By then all processes started here have
// exited. Ignores stop signals, since the leading host gets them too. Throws Error kTimeoutOccured
// if the leading host does not connect or disappears.
JobEnd follow(const SshPlace& place, const std::string& leader) {
  Server server(place);
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);
  const std::string said = server.wait(leader);
  const std::size_t end = said.find('\n');
  if (end == said.npos)
    throw Error(ErrorCode::kTimeoutOccured,
                "The leading host " + leader +
                    " disappeared without reporting the job's result: check its log.");
  return {std::atoi(said.c_str()), said.substr(end + 1)};
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
  pass_on(job.mpi, log);
  return job;
}

// Sets up ssh between several hosts. The key is KILN_HOSTS_KEY, or else /etc/kiln/hosts_key, in
// images built for such jobs.
SshPlace open_ssh_place(const SageMakerJob& job) {
  const std::string key = environment("KILN_HOSTS_KEY");
  SshPlace place{sagemaker_folder() / "ssh", key.empty() ? "/etc/kiln/hosts_key" : key,
                 job.network_interface};
  set_up_ssh(place);
  return place;
}

// On the leading host, before the command runs: makes mpirun use ssh and the job's network
// interface.
void lead_through_ssh(const SageMakerJob& job, const SshPlace& place) {
  set_unless_given("OMPI_MCA_plm_rsh_agent", ssh_command(place));
  set_unless_given("OMPI_MCA_plm_rsh_no_tree_spawn", "1");
  if (job.network_interface.empty()) return;
  for (const char* name :
       {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "NCCL_SOCKET_IFNAME"})
    set_unless_given(name, job.network_interface);
}

// On the other hosts: returns the run's exit code. Throws FailedElsewhere if it is not 0.
int follow_sagemaker_job(const SageMakerJob& job, const SshPlace& place, Log& log) {
  const std::string& leader = job.hosts.front();
  log.info("waiting for host " + leader + ", which starts ranks here over ssh");
  const JobEnd end = follow(place, leader);
  if (end.exit_code == 0) {
    log.info("host " + leader + " finished the job");
    return 0;
  }
  // A note left by a rank of this host is more specific.
  if (!is_there(sagemaker_folder() / "output/failure")) leave_failure_note(end.text);
  throw FailedElsewhere("host " + leader, end.text, end.exit_code);
}

// Runs a job of several hosts from the leading one, and tells the others how it ended.
int lead_sagemaker_job(const SageMakerJob& job, const SshPlace& place, Process& process) {
  lead_through_ssh(job, place);
  HeldHosts others(place, {job.hosts.begin() + 1, job.hosts.end()});
  try {
    const int code = dispatch(job.invocation, process);
    others.tell({code, code == 0 ? "" : failure_note()});
    return code;
  } catch (...) {
    const FailureReport failure = report_failure(std::current_exception());
    others.tell({failure.exit_code, failure.messages.front()});
    throw;
  }
}

}  // namespace

int run_in_sagemaker(const std::vector<std::string>& arguments, Process& process) {
  const SageMakerJob job = open_sagemaker_job(arguments, process.log);
  require_faultless(job.invocation, process);  // before hosts connect
  process.error_info.reset();                  // the run has not started yet
  if (job.hosts.size() == 1) return dispatch(job.invocation, process);
  const SshPlace place = open_ssh_place(job);
  return job.leads() ? lead_sagemaker_job(job, place, process)
                     : follow_sagemaker_job(job, place, process.log);
}

}  // namespace kiln
