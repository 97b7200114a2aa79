// Connects the hosts of a job, on each of which the same program was started, over ssh with a
// shared key. The leading host starts ranks on the others, which run sshd until it reports how the
// job ended. Uses OpenSSH's programs. Linux only; one thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

struct SshPlace {
  std::filesystem::path folder;  // for keys and settings, the same path on all hosts
  std::filesystem::path
      key;  // private; also used as every host's host key, so that impostors are detected
  std::string interface;  // network interface, such as eth0; empty: all
};

struct JobEnd {
  int exit_code = 0;
  std::string text;  // of a failure
};

// Recreates the folder. Throws Error kUserError if there is no key or no OpenSSH.
void set_up_ssh(const SshPlace& place);

// The ssh command for the other hosts: program and arguments, without the host name.
std::string ssh_command(const SshPlace& place);

// The leading host's connections to the others. If it disappears without tell(), for any reason,
// the others notice.
class HeldHosts {
 public:
  // Returns when all have answered; they may start up to 20 minutes after this one. Throws Error
  // kTimeoutOccured.
  HeldHosts(const SshPlace& place, const std::vector<std::string>& others);
  ~HeldHosts();  // closes the connections after the result has been delivered
  HeldHosts(const HeldHosts&) = delete;
  HeldHosts& operator=(const HeldHosts&) = delete;

  void tell(const JobEnd& end);

  struct Line {
    pid_t ssh = -1;
    int input = -1;  // of ssh
  };

 private:
  std::vector<Line> lines_;
};

// On any other host: runs sshd until the job has ended; everything started here has ended by then.
// Ignores stop signals, since the leading host gets them too. Throws Error kTimeoutOccured if the
// leading host does not connect, or disappears.
JobEnd follow(const SshPlace& place, const std::string& leader);

}  // namespace kiln
