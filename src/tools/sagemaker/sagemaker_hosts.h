// `kiln train` started by Amazon SageMaker: without options, configured by a folder.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "tools/sagemaker/sagemaker_job.h"
#include "tools/sagemaker/ssh_hosts.h"

namespace kiln {

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
