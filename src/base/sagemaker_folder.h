// Where Amazon SageMaker lays out a training job.
#pragma once

#include <filesystem>

namespace kiln {

// SAGEMAKER_BASE_DIR, as its training toolkit has it, else /opt/ml.
std::filesystem::path sagemaker_folder();

}  // namespace kiln
