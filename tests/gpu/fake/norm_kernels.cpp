// The kernels for norms, run on the CPU (emulated/threads.h), without LibTorch.
#include "modules/cuda/norm_kernels.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "modules/cuda/norm_kernels.cu"

// `seed`: of the order of blocks and threads.
extern "C" void kiln_emulate_norm(const char* kernel, const kiln::NormGrid* grid,
                                  const kiln::NormArguments* given, unsigned seed) {
  static std::mutex one_at_a_time;
  static std::array<unsigned, kiln::kMaxNormTiles> tickets{};
  const std::lock_guard lock(one_at_a_time);
  auto* const found =
      reinterpret_cast<void (*)(kiln::NormArguments)>(::dlsym(RTLD_DEFAULT, kernel));
  if (found == nullptr || grid->tiles > kiln::kMaxNormTiles) std::abort();
  kiln::NormArguments arguments = *given;
  arguments.tickets = tickets.data();
  kiln::emulated::order.seed(seed);
  kiln::emulated::launch({grid->tiles, grid->blocks}, {grid->columns, grid->rows},
                         [&] { found(arguments); });
}
