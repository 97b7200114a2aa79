// The door to libkiln_cuda.so, GPU support beside the program.
#pragma once

#include <string>

#include "cuda/module.h"

namespace kiln {

// Opens the module at the first call; it stays open for the life of the process, as LibTorch's
// hooks point into it. nullptr with a `fault` where it cannot be loaded or is of another build.
const CudaModule* open_cuda_module(std::string* fault);

}  // namespace kiln
