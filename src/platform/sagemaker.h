// What Amazon SageMaker tells a training job: its folder, and the three files of input/config below
// it, in the form that its guide calls "How Amazon SageMaker provides training information".
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace kiln {

// SAGEMAKER_BASE_DIR, as its training toolkit has it, else /opt/ml.
std::filesystem::path sagemaker_folder();

// What Amazon SageMaker tells a training job: the three files of input/config below its folder, in
// the form that its guide calls "How Amazon SageMaker provides training information".

// Hyperparameters of the Python SDK's own.
constexpr const char* kRanksPerHost = "sagemaker_mpi_num_of_processes_per_host";
constexpr const char* kMpiOptions = "sagemaker_mpi_custom_mpi_options";

struct SageMakerChannel {
  bool is_pipe = false;
  bool is_sharded = false;  // every host has its own objects (ShardedByS3Key)
};

struct SageMakerTree {
  std::map<std::string, std::string> hyperparameters;  // each a plain text; none of the SDK's own
  std::vector<std::string> unreadable;                 // names of hyperparameters that are no text
  std::string ranks_per_host;  // what the SDK's MPI settings say; empty: nothing
  std::string mpi_options;
  std::map<std::string, SageMakerChannel> channels;
  std::vector<std::string> hosts;  // the first leads
  std::string current_host;
  std::string network_interface;  // empty when it is not told
};

// A hyperparameter's value is a text, or JSON of one value inside a text, as the Python SDK sends
// it; others are faults, which are added to `problems`. Throws Problems, with those, where a file
// is none that SageMaker writes. All are Error kParameterParsing.
SageMakerTree read_sagemaker_tree(const std::filesystem::path& folder, Problems& problems);

}  // namespace kiln
