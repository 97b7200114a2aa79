// Connects the hosts of a job over ssh with a shared key, where a platform has started the same
// program on each host. The leading host starts ranks on the others, which run sshd until the
// leading host reports how the job ended. Uses OpenSSH's programs. Linux only; one thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

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

// Recreates the folder. Throws Error kUserError if the key or OpenSSH is missing.
void set_up_ssh(const SshPlace& place);

// The ssh command for the other hosts: program and arguments, without the host name.
std::string ssh_command(const SshPlace& place);

// The leading host's connections to the others. If the leading host disappears for any reason
// before tell(), the others notice.
class HeldHosts {
 public:
  // Returns when all hosts have answered. They may start up to 20 minutes later than this one;
  // after that throws Error kTimeoutOccured.
  HeldHosts(const SshPlace& place, const std::vector<std::string>& others);
  ~HeldHosts();  // delivers the result, if tell() was called, and closes the connections
  HeldHosts(const HeldHosts&) = delete;
  HeldHosts& operator=(const HeldHosts&) = delete;

  void tell(const JobEnd& end);

  struct Line {
    pid_t ssh = -1;
    int input = -1;  // ssh's standard input
  };

 private:
  std::vector<Line> lines_;
};

// On any other host: runs sshd until the job has ended. By then all processes started here have
// exited. Ignores stop signals, since the leading host gets them too. Throws Error kTimeoutOccured
// if the leading host does not connect or disappears.
JobEnd follow(const SshPlace& place, const std::string& leader);

}  // namespace kiln
