// `kiln train` where Amazon SageMaker starts it: bare, beside a folder that says everything.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "config/sagemaker.h"

namespace kiln {

// What the folder says, in the log as well. Throws Problems.
SageMakerJob open_sagemaker_job(const std::vector<std::string>& arguments, Log& log);

// Makes the network where no channel brings one, in a process of its own, as LibTorch must not be
// used here before the GPU module is loaded. Returns its exit code; it has told its failure.
int prepare_sagemaker_model(const SageMakerJob& job);

}  // namespace kiln
