// `kiln train` started by Amazon SageMaker: without options, configured by a folder, on one host or
// several.
//
// Connects the hosts of a job over ssh with a shared key, where a platform has started the same
// program on each host. The leading host starts ranks on the others, which run sshd until the
// leading host reports how the job ended. Uses OpenSSH's programs. Linux only; one thread.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <string>
#include <vector>

#include "base/log.h"
#include "tools/sagemaker/sagemaker_job.h"

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

// Reads and logs the folder's settings, sets the environment variables that they define for the
// ranks, and removes an earlier run's failure note. Throws what sagemaker_job() throws. Call before
// any thread starts.
SageMakerJob open_sagemaker_job(const std::vector<std::string>& arguments, Log& log);

// With several hosts: sets up ssh between them. The key is KILN_HOSTS_KEY, or else
// /etc/kiln/hosts_key, in images built for such jobs.
SshPlace open_ssh_place(const SageMakerJob& job);

// Call on the leading host, before the command runs: makes mpirun use ssh and the job's network
// interface.
void lead_through_ssh(const SageMakerJob& job, const SshPlace& place);

// Call on the other hosts: returns the run's exit code. Throws FailedElsewhere if it is not 0.
int follow_sagemaker_job(const SageMakerJob& job, const SshPlace& place, Log& log);

}  // namespace kiln
