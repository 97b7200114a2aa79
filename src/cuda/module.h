// The table that libkiln_cuda.so hands to the program. Plain C types: the program knows no CUDA
// header.
#pragma once

namespace kiln {

struct CudaModule {
  int version;  // kCudaModuleVersion of the build
  long long (*peak_memory_bytes)(int device);
  int (*runtime_version)();  // 13000 for CUDA 13.0
  long (*cudnn_version)();   // 91900 for 9.19.0
  int (*nccl_version)();     // 22809 for 2.28.9
};

constexpr int kCudaModuleVersion = 1;
constexpr const char* kCudaModuleSymbol = "kiln_cuda_module";

}  // namespace kiln
