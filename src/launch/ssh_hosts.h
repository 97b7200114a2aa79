// Hosts of one job on which the same program was started, and which share a key: they meet over
// ssh. The leading host starts ranks on the others; these serve ssh until it tells how the job
// ended. OpenSSH's programs do the work. Linux only; one thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

struct SshPlace {
  std::filesystem::path folder;  // for keys and settings, under the same name on all hosts
  std::filesystem::path key;     // private; also every host's own, so that strangers are noticed
  std::string interface;         // network card, such as eth0; empty: all
};

struct JobEnd {
  int exit_code = 0;
  std::string text;  // of a failure
};

// Makes the folder anew. Throws Error kUserError when there is no key or no OpenSSH.
void set_up_ssh(const SshPlace& place);

// The command that reaches the others: program and arguments, before the host's name.
std::string ssh_command(const SshPlace& place);

// The leading host's hold on the others. When it goes, whyever, without tell(), they see it.
class HeldHosts {
 public:
  // Returns when all have answered; they may start up to 20 minutes later than this one. Throws
  // Error kTimeoutOccured.
  HeldHosts(const SshPlace& place, const std::vector<std::string>& others);
  ~HeldHosts();  // lets go, and waits until what was told has arrived
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

// Any other host: serves ssh until the job has ended; what was started here is gone then. Stop
// signals do nothing here, as the leading host gets them too. Throws Error kTimeoutOccured when the
// leading host does not come, or goes without a word.
JobEnd follow(const SshPlace& place, const std::string& leader);

}  // namespace kiln
