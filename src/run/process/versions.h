// The versions of the program and its libraries.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// Versions of the program, its git commit and its libraries. `with_cuda` adds CUDA, cuDNN and NCCL,
// which loads the GPU module (0.3 s).
std::vector<std::pair<std::string, std::string>> versions(bool with_cuda);

std::string_view version_number();   // "0.1.0"
std::string_view program_version();  // "kiln 0.1.0 (1a2b3c4)"

}  // namespace kiln
