// Translates an Amazon SageMaker training job to the equivalent kiln command lines, so that the
// rest of the program need not know about SageMaker. Hyperparameters are options of train and
// init-model, with `-` or `_`; channels are the inputs: train or training; validation, valid or
// test, without which the images of train are split; model, without which a hyperparameter names
// the network. The model goes to model/, logs to output/data/logs and checkpoints to checkpoints/,
// where the job has it, unless overridden. Of the options for mpirun, its variables count.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/command_line.h"
#include "config/mpi_options.h"

namespace kiln {

struct SageMakerJob {
  // `train …`, or `launch … -- train …` on several hosts: for the leading host. Empty if the job
  // itself has faults.
  std::vector<std::string> command;
  // `command`, parsed; with all faults of the job and of both command lines.
  Invocation invocation;
  std::vector<std::string> hosts;  // the first leads
  std::string current_host;
  std::string network_interface;
  MpiOptions mpi;                     // what the job gives to its ranks' environment
  std::vector<std::string> warnings;  // about settings without effect

  bool leads() const { return hosts.front() == current_host; }
};

// Whether `arguments` are `train` without any of its paths, and `folder` belongs to SageMaker.
bool is_sagemaker_start(const std::vector<std::string>& arguments,
                        const std::filesystem::path& folder);

// `arguments` as given; options after `train` are added to the hyperparameters. `num_gpus` of this
// host, each of which gets a rank; 0: one rank. Throws Problems if the folder's files cannot be
// read; other faults are in the job.
SageMakerJob sagemaker_job(const std::filesystem::path& folder,
                           const std::vector<std::string>& arguments, int num_gpus);

}  // namespace kiln
