// The versions of the program and its libraries.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kiln {

// Versions of the program, its git commit and its libraries. `with_cuda` adds CUDA, cuDNN and NCCL,
// which loads the GPU module (0.3 s).
std::vector<std::pair<std::string, std::string>> versions(bool with_cuda);

}  // namespace kiln
