// The configuration that Amazon SageMaker passes to a training job: a folder with three files in
// input/config, as documented in "How Amazon SageMaker provides training information".
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace kiln {

// SAGEMAKER_BASE_DIR, as in SageMaker's training toolkit, or else /opt/ml.
std::filesystem::path sagemaker_folder();

// The hosts of a job. Those of a training job are in the folder's input/config/resourceconfig.json,
// those of a processing job in config/resourceconfig.json.
struct SageMakerHosts {
  std::vector<std::string> hosts = {};  // the first leads
  std::string current_host;
  std::string network_interface;  // empty if not given
};

// Throws Error kParameterParsing if the file is not in SageMaker's format.
SageMakerHosts read_sagemaker_hosts(const std::filesystem::path& file);

// Hyperparameters set by the Python SDK itself.
constexpr const char* kRanksPerHost = "sagemaker_mpi_num_of_processes_per_host";
constexpr const char* kMpiOptions = "sagemaker_mpi_custom_mpi_options";
constexpr const char* kParameterServer = "sagemaker_parameter_server_enabled";

struct SageMakerChannel {
  bool is_pipe = false;
  bool is_sharded = false;  // each host has its own shard (ShardedByS3Key)
  bool operator==(const SageMakerChannel&) const = default;
};

struct SageMakerTree : SageMakerHosts {
  std::map<std::string, std::string> hyperparameters;  // plain text, without the SDK's own
  std::vector<std::string> unreadable;        // names of hyperparameters that are not plain values
  std::string ranks_per_host;                 // from the SDK's MPI settings; empty: not set
  std::string mpi_options, parameter_server;  // likewise
  std::map<std::string, SageMakerChannel> channels;
};

// A hyperparameter's value is a string, or a JSON scalar encoded as a string, as the Python SDK
// sends it. Other values are added to `problems`. If a file is not in SageMaker's format, throws
// Problems, including those already found. All are Error kParameterParsing.
SageMakerTree read_sagemaker_tree(const std::filesystem::path& folder, Problems& problems);

// Writes a failure's message where the platform looks for it, to show it to the user: to
// Kubernetes' /dev/termination-log and SageMaker's output/failure, or a processing
// job's output/message, if present and writable. Truncates it to the 1024 bytes that SageMaker
// accepts. Never throws.
void leave_failure_note(const std::string& text);

// Removes that of an earlier run, on SageMaker.
void remove_failure_note();

// The note on SageMaker.
std::string failure_note();

}  // namespace kiln
