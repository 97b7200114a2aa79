#include "tools/sagemaker/sagemaker_hosts.h"

#include <cstdlib>

#include "base/error.h"
#include "base/platform/failure_note.h"
#include "base/platform/sagemaker.h"
#include "base/text.h"
#include "parallel/device/nvidia_driver.h"
#include "tools/launch/mpirun_job.h"

namespace kiln {
namespace {

// Passes the variables to mpirun, this process's child, and through it to the ranks of all hosts.
void pass_on(const MpiOptions& options, Log& log) {
  if (options.names.empty()) return;
  for (const auto& [name, value] : options.variables)
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  const char* before = std::getenv(kPassOn);
  const std::string names = joined(options.names, ",");
  const bool is_first = before == nullptr || *before == '\0';
  ::setenv(kPassOn, (is_first ? names : before + ("," + names)).c_str(), /*overwrite=*/1);
  log.info("variables passed to the ranks of all hosts: " + joined(options.names, ", "));
}

void set_unless_given(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), /*overwrite=*/0);
}

}  // namespace

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

SshPlace open_ssh_place(const SageMakerJob& job) {
  const char* key = std::getenv("KILN_HOSTS_KEY");
  SshPlace place{sagemaker_folder() / "ssh",
                 key == nullptr || *key == '\0' ? "/etc/kiln/hosts_key" : key,
                 job.network_interface};
  set_up_ssh(place);
  return place;
}

void lead_through_ssh(const SageMakerJob& job, const SshPlace& place) {
  set_unless_given("OMPI_MCA_plm_rsh_agent", ssh_command(place));
  set_unless_given("OMPI_MCA_plm_rsh_no_tree_spawn", "1");
  if (job.network_interface.empty()) return;
  for (const char* name :
       {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "NCCL_SOCKET_IFNAME"})
    set_unless_given(name, job.network_interface);
}

int follow_sagemaker_job(const SageMakerJob& job, const SshPlace& place, Log& log) {
  const std::string& leader = job.hosts.front();
  log.info("waiting for host " + leader + ", which starts ranks here over ssh");
  const JobEnd end = follow(place, leader);
  if (end.exit_code == 0) {
    log.info("host " + leader + " finished the job");
    return 0;
  }
  // A note left by a rank of this host is more specific.
  std::error_code failure;
  if (!std::filesystem::exists(sagemaker_folder() / "output/failure", failure))
    leave_failure_note(end.text);
  throw FailedElsewhere("host " + leader, end.text, end.exit_code);
}

}  // namespace kiln
