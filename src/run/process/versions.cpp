#include "run/process/versions.h"

#include <mpi.h>
#include <torch/headeronly/version.h>

#include "base/platform/installation.h"
#include "parallel/device/device.h"

namespace kiln {

std::vector<std::pair<std::string, std::string>> versions(bool with_cuda) {
  std::vector<std::pair<std::string, std::string>> list = {{"kiln", std::string(version_number())},
                                                           {"commit", std::string(commit())},
                                                           {"LibTorch", TORCH_VERSION}};
  if (with_cuda) {
    const CudaVersions cuda = cuda_versions();
    const auto known = [](const std::string& text) {
      return text.empty() ? "not installed" : text;
    };
    list.insert(
        list.end(),
        {{"CUDA", known(cuda.cuda)}, {"cuDNN", known(cuda.cudnn)}, {"NCCL", known(cuda.nccl)}});
  }
  // The version of the loaded library, not of the header. This call is allowed before MPI_Init.
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string mpi(text, static_cast<std::size_t>(length));
  list.emplace_back("MPI", mpi.substr(0, mpi.find(',')));
  return list;
}

}  // namespace kiln
