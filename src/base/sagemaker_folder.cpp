#include "base/sagemaker_folder.h"

#include <cstdlib>

namespace kiln {

std::filesystem::path sagemaker_folder() {
  const char* folder = std::getenv("SAGEMAKER_BASE_DIR");
  return folder == nullptr || *folder == '\0' ? "/opt/ml" : folder;
}

}  // namespace kiln
