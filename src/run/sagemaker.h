// `kiln train` where Amazon SageMaker starts it: bare, beside a folder that says everything.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "config/sagemaker_job.h"
#include "launch/ssh_hosts.h"

namespace kiln {

// What the folder says, in the log as well; an earlier run's failure note is removed. Throws what
// sagemaker_job() throws.
SageMakerJob open_sagemaker_job(const std::vector<std::string>& arguments, Log& log);

// Makes the network where no channel brings one, in a process of its own, as LibTorch must not be
// used here before the GPU module is loaded. Returns its exit code; it has told its failure.
int prepare_sagemaker_model(const SageMakerJob& job);

// Of several hosts: where they meet, made ready. The key is KILN_HOSTS_KEY, or else that of an
// image built for such jobs, /etc/kiln/hosts_key.
SshPlace open_ssh_place(const SageMakerJob& job);

// On the leading host, before its command: has mpirun go over ssh and the job's network card.
void lead_through_ssh(const SageMakerJob& job, const SshPlace& place);

// On the others: the run's exit code. Throws FailedElsewhere when it is not 0.
int follow_sagemaker_job(const SageMakerJob& job, const SshPlace& place, Log& log);

}  // namespace kiln
