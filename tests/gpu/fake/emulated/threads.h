// Enough of CUDA to run kernels on a CPU: blocks one after another, the threads of a block as
// fibers that meet in __syncthreads(). The order of blocks, and of threads between two meetings, is
// drawn from a seed: a result that depends on either shows a missing barrier, or an order that a
// GPU does not promise. One launch at a time.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

using std::fma;
using std::sqrt;

struct ThreadIndex {
  unsigned x = 1, y = 1;
};
inline ThreadIndex threadIdx, blockIdx, blockDim, gridDim;

inline void __threadfence() {}
inline unsigned atomicAdd(unsigned* to, unsigned value) {
  return std::exchange(*to, *to + value);
}

namespace kiln::emulated {

struct Fiber {
  ucontext_t context{};
  ThreadIndex thread = {};
  bool is_done = false;
  std::unique_ptr<char[]> stack = {};
};

inline ucontext_t scheduler;
inline Fiber* running = nullptr;
inline std::function<void()> body;
inline std::mt19937 order{1};

inline void enter() {
  body();
  running->is_done = true;
}

inline void start(Fiber& fiber, ThreadIndex thread) {
  constexpr std::size_t kStack = 64 << 10;
  if (!fiber.stack) fiber.stack.reset(new char[kStack]);
  fiber.thread = thread;
  fiber.is_done = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = &scheduler;
  makecontext(&fiber.context, enter, 0);
}

// `kernel` in each thread of grid.x * grid.y blocks.
inline void launch(ThreadIndex grid, ThreadIndex threads, std::function<void()> kernel) {
  static std::vector<Fiber> fibers(1024);
  std::vector<unsigned> blocks(grid.x * grid.y);
  std::iota(blocks.begin(), blocks.end(), 0u);
  std::shuffle(blocks.begin(), blocks.end(), order);
  body = std::move(kernel);
  gridDim = grid;
  blockDim = threads;
  for (const unsigned block : blocks) {
    blockIdx = {block % grid.x, block / grid.x};
    std::vector<Fiber*> waiting;
    for (unsigned i = 0; i < threads.x * threads.y; ++i)
      start(*waiting.emplace_back(&fibers[i]), {i % threads.x, i / threads.x});
    while (!waiting.empty()) {  // to the next barrier, or the end
      std::shuffle(waiting.begin(), waiting.end(), order);
      for (Fiber* fiber : waiting) {
        running = fiber;
        threadIdx = fiber->thread;
        swapcontext(&scheduler, &fiber->context);
      }
      std::erase_if(waiting, [](const Fiber* fiber) { return fiber->is_done; });
    }
  }
}

}  // namespace kiln::emulated

inline void __syncthreads() {
  swapcontext(&kiln::emulated::running->context, &kiln::emulated::scheduler);
}
