// A training job of Amazon SageMaker as the command lines that a user would have typed for it, so
// that nothing else in the program knows of SageMaker.
//
// Hyperparameters are options of train and init-model, `-` and `_` alike; channels are its inputs:
// train or training; validation, valid or test; model, and without it the network is made by
// init-model. The model goes to model/, logs to output/data/logs unless they say otherwise.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/command_line.h"

namespace kiln {

struct SageMakerJob {
  // `init-model …` where no channel brings a model: for every host. Empty otherwise.
  std::vector<std::string> preparation;
  // `train …`, or of several hosts `launch … -- train …`: for the host that leads. Empty where the
  // job itself is at fault.
  std::vector<std::string> command;
  // What `command` asks for; with the faults of the job and of both command lines, all together.
  Invocation invocation;
  std::vector<std::string> hosts;  // the first leads
  std::string current_host;
  std::string network_interface;
  std::vector<std::string> warnings;  // what the job says and has no effect

  bool leads() const { return hosts.front() == current_host; }
};

// Whether `arguments` are `train` without any of its paths, and `folder` is SageMaker's.
bool is_sagemaker_start(const std::vector<std::string>& arguments,
                        const std::filesystem::path& folder);

// `arguments` as they were given; what they say beside `train` is added to the hyperparameters.
// `num_gpus` of this host, each of which gets a rank; 0: one rank. Throws Problems where the
// folder's files cannot be read; other faults are in the job.
SageMakerJob sagemaker_job(const std::filesystem::path& folder,
                           const std::vector<std::string>& arguments, int num_gpus);

}  // namespace kiln
