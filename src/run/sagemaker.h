// `kiln train` as started by Amazon SageMaker: without options, configured by a folder.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "config/sagemaker_job.h"
#include "launch/ssh_hosts.h"

namespace kiln {

// Reads and logs the folder's settings, sets the variables that they have for the ranks, and
// removes an earlier run's failure note. Throws what sagemaker_job() throws. Before threads start.
SageMakerJob open_sagemaker_job(const std::vector<std::string>& arguments, Log& log);

// With several hosts: sets up ssh between them. The key is KILN_HOSTS_KEY, or else
// /etc/kiln/hosts_key of an image built for such jobs.
SshPlace open_ssh_place(const SageMakerJob& job);

// On the leading host, before its command: makes mpirun use ssh and the job's network interface.
void lead_through_ssh(const SageMakerJob& job, const SshPlace& place);

// On the other hosts: the run's exit code. Throws FailedElsewhere if it is not 0.
int follow_sagemaker_job(const SageMakerJob& job, const SshPlace& place, Log& log);

}  // namespace kiln
