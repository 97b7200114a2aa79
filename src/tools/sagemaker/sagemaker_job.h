// Translates an Amazon SageMaker training job to the equivalent kiln command lines, so that the
// rest of the program need not know about SageMaker. Hyperparameters are options of train and
// init-model, spelled with `-` or `_`. Channels are the inputs: train or training; validation,
// valid or test (without one, the images of train are split); and model (without it, a
// hyperparameter names the network). Hosts divide the streams and the ranks' channels that each of
// them gets whole. Unless overridden, the model goes to model/, logs to
// output/data/logs, and checkpoints to checkpoints/ if the job has it. Of the options for mpirun,
// only environment variables are used.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"

namespace kiln {

// mpirun options that users of a platform pass along with a job. Only their environment variables
// are used, since those configure NCCL, libfabric and the like; the other options would conflict
// with the way kiln starts its ranks.
struct MpiOptions {
  // From `-x NAME=VALUE`, in order. `-x NAME` without a value passes on the value from this host's
  // environment.
  std::vector<std::pair<std::string, std::string>> variables;  // to set
  std::vector<std::string> names;    // all of them, to be exported to every host
  std::vector<std::string> ignored;  // the other options with their values: "'--mca btl ^openib'"
};

struct SageMakerJob {
  // `train …`, or `launch … -- train …` for the leading host of several. Empty if the job itself
  // has faults.
  std::vector<std::string> command = {};
  // The parsed `command`, with all faults of the job and of both command lines.
  Invocation invocation = {};
  std::vector<std::string> hosts;  // the first one leads
  std::string current_host;
  std::string network_interface;
  MpiOptions mpi;                     // environment variables for the job's ranks
  std::vector<std::string> warnings;  // about settings that have no effect

  bool leads() const { return hosts.front() == current_host; }
};

// Whether `arguments` are `train` without any of its paths, and `folder` is SageMaker's.
bool is_sagemaker_start(const std::vector<std::string>& arguments,
                        const std::filesystem::path& folder);

// `arguments` are as given on the command line; options after `train` are added to the
// hyperparameters. `num_gpus` is the number of GPUs of this host, each of which gets a rank; 0: one
// rank. Throws Problems if the folder's files cannot be read; other faults are in the result.
SageMakerJob sagemaker_job(const std::filesystem::path& folder,
                           const std::vector<std::string>& arguments, int num_gpus);

}  // namespace kiln
