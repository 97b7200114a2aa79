#include "run/prepare/memory_advice.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr double kReserve = 0.1;  // share of the peak

long long share_of(const MemoryUse& use) {
  return use.available / std::max(1, use.ranks_on_host);
}

// If the first step ran out of memory, its full need is unknown, so this suggests half the batch.
int smaller_batch(const MemoryUse& use, bool has_stepped) {
  const int half = use.batch_size / 2;
  const int fits = has_stepped ? batch_that_fits(use) : 0;
  return fits > 0 ? std::min(fits, half) : half;
}

}  // namespace

long long memory_needed(const MemoryUse& use) {
  return use.to_come + static_cast<long long>(kReserve * static_cast<double>(use.peak));
}

int batch_that_fits(const MemoryUse& use) {
  const long long missing = memory_needed(use) - share_of(use);
  if (missing <= 0) return use.batch_size;
  if (use.on_gpu || use.peak <= use.before) return 0;
  const double per_image = static_cast<double>(use.peak - use.before) / use.batch_size;
  // Each byte saved also lowers the peak, and with it the reserve.
  const double images = std::ceil(static_cast<double>(missing) / (1 + kReserve) / per_image);
  return images < use.batch_size ? use.batch_size - static_cast<int>(images) : 0;
}

std::string memory_warning(const MemoryUse& use) {
  if (share_of(use) >= memory_needed(use)) return "";
  const int fits = batch_that_fits(use);
  return "memory is running low: after the first step this process uses " + bytes_text(use.peak) +
         ", " + bytes_text(share_of(use)) + " is available to it, and it may need about " +
         bytes_text(memory_needed(use)) + " more, or the system kills it; use " +
         (fits > 0 ? "--batch-size " + std::to_string(fits) + " or less"
                   : "fewer --loader-threads, --cache none, or a smaller --image-size");
}

MemoryWatch::MemoryWatch(const MemoryUse& plan) : use_(plan) {
  use_.before = resident_memory_bytes();
}

std::string MemoryWatch::after_step() {
  if (has_stepped_) return "";
  has_stepped_ = true;
  use_.peak = peak_memory_bytes();
  use_.available = available_memory_bytes();
  return memory_warning(use_);
}

std::exception_ptr MemoryWatch::advised(const std::exception_ptr& failure) const {
  const std::exception_ptr known = explained(failure);
  try {
    std::rethrow_exception(known);
  } catch (const Error& error) {
    const int batch = smaller_batch(use_, has_stepped_);
    if (error.code() != ErrorCode::kModuleOutOfMemory || batch == 0) return failure;
    return std::make_exception_ptr(Error(error.code(), error.message() +
                                                           " This run has --batch-size " +
                                                           std::to_string(use_.batch_size) +
                                                           ": try " + std::to_string(batch) + "."));
  } catch (...) {
    return failure;
  }
}

}  // namespace kiln
