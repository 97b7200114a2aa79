// What Amazon SageMaker tells a training job: the three files of input/config below its folder, in
// the form that its guide calls "How Amazon SageMaker provides training information".
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace kiln {

struct SageMakerChannel {
  bool is_pipe = false;
  bool is_sharded = false;  // every host has its own objects (ShardedByS3Key)
};

struct SageMakerTree {
  std::map<std::string, std::string> hyperparameters;  // each a plain text
  std::map<std::string, SageMakerChannel> channels;
  std::vector<std::string> hosts;  // the first leads
  std::string current_host;
  std::string network_interface;  // empty when it is not told
};

// Faults are added to `problems`, all Error kParameterParsing; what could be read is returned. A
// hyperparameter's value is a text, or JSON of one value inside a text, as the Python SDK sends it.
SageMakerTree read_sagemaker_tree(const std::filesystem::path& folder, Problems& problems);

}  // namespace kiln
