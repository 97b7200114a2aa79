#include "parallel/cuda_module.h"

#include <dlfcn.h>

#include <filesystem>

#include "parallel/library_symbol.h"

namespace kiln {
namespace {

std::string module_path() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libkiln_cuda.so")
      .string();
}

}  // namespace

const CudaModule* open_cuda_module(std::string* fault) {
  void* library = ::dlopen(module_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    *fault = ::dlerror();
    return nullptr;
  }
  auto* entry = symbol<const CudaModule*()>(library, kCudaModuleSymbol);
  const CudaModule* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != kCudaModuleVersion) {
    *fault = module_path() + " is of another build of kiln";
    return nullptr;
  }
  return module;
}

}  // namespace kiln
