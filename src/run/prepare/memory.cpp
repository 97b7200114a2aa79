#include "run/prepare/memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "run/inputs/sources.h"

namespace kiln {
namespace {

constexpr double kReserve = 0.1;  // share of the peak

long long share_of(const MemoryUse& use) {
  return use.available / std::max(1, use.ranks_on_host);
}

constexpr int kSideStep = 32, kMaxSide = 2048;  // pixels; the most that --image-size takes

double least_bytes(const StepNeed& need) {
  return least_step_bytes(need.kept, need.step);
}

// This rank's share of the bytes of its GPU, free and in all; if it cannot say, infinite and none.
std::pair<double, double> gpu_bytes(const Device& device, const World& world) {
  auto* memory = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
  if (memory == nullptr) return {HUGE_VAL, 0};
  const auto [free, all] = memory->getMemoryInfo(static_cast<c10::DeviceIndex>(device.index));
  const double ranks = ranks_on_gpu(device, world.local_size());
  return {static_cast<double>(free) / ranks, static_cast<double>(all) / ranks};
}

std::string sentence(const StepNeed& need, const std::string& takes, double bytes) {
  const auto text = [](double number) { return bytes_text(number); };
  // The share of the step's images, or of their pixels, that should fit.
  const double share = need.free / kMostToLeast / least_bytes(need);
  const double pixels = static_cast<double>(need.step.height) * need.step.width;
  const int batch = static_cast<int>(need.step.batch_size * share);
  const int side =
      std::min(static_cast<int>(std::sqrt(pixels * share)) / kSideStep * kSideStep, kMaxSide);
  std::string advice;
  if (batch >= need.least_batch) advice = "--batch-size " + std::to_string(batch) + " or less";
  if (side >= kSideStep)
    advice +=
        (advice.empty() ? "" : ", or ") +
        (need.size_option.empty()
             ? formatted("operations in --transform-path that give %d x %d pixels", side, side)
             : need.size_option + " " + std::to_string(side)) +
        " or less";
  return formatted("%s with %d images of %d x %d pixels %s %s, but %s are free: use %s.",
                   need.step.is_backward ? "A training step" : "Predicting", need.step.batch_size,
                   need.step.width, need.step.height, takes.c_str(), text(bytes).c_str(),
                   text(need.free).c_str(),
                   advice.empty() ? "a machine with more memory" : advice.c_str());
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

std::exception_ptr MemoryWatch::advised(const std::exception_ptr& failure) const try {
  std::rethrow_exception(explained(failure));
} catch (const Error& error) {
  // If the first step ran out of memory, its full need is unknown: half the batch.
  const int half = use_.batch_size / 2, fits = has_stepped_ ? batch_that_fits(use_) : 0;
  const int batch = fits > 0 ? std::min(fits, half) : half;
  if (error.code() != ErrorCode::kModuleOutOfMemory || batch == 0) return failure;
  return std::make_exception_ptr(Error(
      error.code(), error.message() + " This run has --batch-size " +
                        std::to_string(use_.batch_size) + ": try " + std::to_string(batch) + "."));
} catch (...) {
  return failure;
}

double least_step_bytes(const Kept& kept, const StepSize& step) {
  constexpr double kImage = 3 * 4, kFirstMap = 64.0 / 4;
  const double pixels = static_cast<double>(step.height) * step.width * step.batch_size;
  const double number = step.is_half ? 2 : 4;
  if (!step.is_backward) return pixels * (kImage + kFirstMap * number);
  return pixels * (kImage + kept.numbers * number + kept.indices * sizeof(std::int64_t));
}

std::string step_fault(const StepNeed& need) {
  const double least = least_bytes(need);
  return least <= need.free ? "" : sentence(need, "takes at least", least);
}

std::string step_warning(const StepNeed& need) {
  const double most = kMostToLeast * least_bytes(need);
  return most <= need.free ? "" : sentence(need, "may take", most);
}

int automatic_batch(double images, double image_bytes, double bytes) {
  constexpr int kMost = 256, kSteps = 100;
  if (images > 0 && images < 2 * kUsualBatch) return std::max(2, static_cast<int>(images) / 4 * 2);
  int batch = kUsualBatch;
  while (batch < kMost && images >= 2 * kSteps * batch && 2 * batch * image_bytes <= bytes)
    batch *= 2;
  return batch;
}

int automatic_batch(const Device& device, const ImageModel* model, const World& world,
                    ImageSize size, double images) {
  if (!device.is_cuda || model == nullptr) return automatic_batch(images, /*image_bytes=*/1, 0);
  const double image_bytes =
      kMostToLeast * least_step_bytes(model->kept(), {.height = size.height, .width = size.width});
  return automatic_batch(images, image_bytes, gpu_bytes(device, world).second / 2);
}

void check_step_memory(const Device& device, const ImageModel& model, const World& world,
                       const PixelPlan& pixels, StepSize step, std::vector<std::string>& warnings) {
  const bool by_chain = pixels.train.chain != nullptr;
  const double free = device.is_cuda
                          ? gpu_bytes(device, world).first
                          : static_cast<double>(available_memory_bytes()) / world.local_size();
  const Kept kept = model.kept();
  const auto check = [&](ImageSize size, const char* size_option) {
    step.height = size.height;
    step.width = size.width;
    const StepNeed need{.kept = kept,
                        .step = step,
                        .least_batch = pixels.smallest_batch,
                        .free = free,
                        .size_option = by_chain ? "" : size_option};
    if (const std::string fault = step_fault(need); !fault.empty())
      throw Error(ErrorCode::kModuleOutOfMemory, fault);
    if (std::string warning = step_warning(need); !warning.empty())
      warnings.push_back(std::move(warning));
  };
  check(pixels.train.output, "--image-size");
  step.is_backward = false;
  check(pixels.valid.output, "--eval-crop");
}

}  // namespace kiln
