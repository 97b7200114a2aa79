#include "train/precision.h"

#include <ATen/Context.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "model/operators/autocast.h"
#include "parallel/processors/contention.h"

namespace kiln {
namespace {

constexpr int kAmpere = 80;  // compute capability 8.0, the first with bfloat16 and TF32

bool has_bf16(const ComputeUnits& units) {
  return units.is_cuda ? units.capability >= kAmpere : units.cpu_has_bf16;
}

std::string name_of(const ComputeUnits& units) {
  if (!units.is_cuda)
    return units.cpu_has_bf16 ? "the CPU has AMX or AVX512-BF16"
                              : "the CPU has neither AMX nor AVX512-BF16";
  return formatted("the GPU has compute capability %d.%d", units.capability / 10,
                   units.capability % 10);
}

Precision best_of(const ComputeUnits& units) {
  if (has_bf16(units)) return Precision::kBf16;
  return units.is_cuda ? Precision::kFp16 : Precision::kFp32;
}

std::string reason_of(Precision precision, const ComputeUnits& units) {
  switch (precision) {
    case Precision::kTf32:
      return "float32, with convolutions and linear layers in TF32";
    case Precision::kFp16:
    case Precision::kBf16:
      return "mixed precision; weights, optimizer and BatchNorm statistics in float32";
    case Precision::kFp32:
      break;
  }
  return units.is_cuda && units.capability >= kAmpere
             ? "float32, with convolutions in TF32 as in PyTorch"
             : "all in float32";
}

}  // namespace

bool cpu_has_bf16_units() {
  return cpu_has("amx_bf16") || cpu_has("avx512_bf16");
}

void require_possible(std::optional<Precision> asked, const ComputeUnits& units) {
  if (asked == Precision::kFp16 && !units.is_cuda)
    throw Error(ErrorCode::kUserError,
                "--precision fp16 needs a GPU, and this run computes on the CPU: use --precision "
                "fp32 or auto.");
  if (asked == Precision::kTf32 && !(units.is_cuda && units.capability >= kAmpere))
    throw Error(ErrorCode::kUserError,
                "--precision tf32 needs a GPU of compute capability 8.0 or higher, but " +
                    (units.is_cuda ? name_of(units) : "this run computes on the CPU") +
                    ": use --precision fp32 or auto.");
}

PrecisionChoice choose_precision(std::optional<Precision> asked, const ComputeUnits& units,
                                 int side) {
  if (!asked) {
    const Precision best = best_of(units);
    if (best == Precision::kBf16 && !units.is_cuda && side > 0 && side < kBf16Side)
      return {Precision::kFp32,
              formatted("auto: CPUs train on images of %d pixels in float32", side)};
    return {best, "auto: " + name_of(units)};
  }
  require_possible(asked, units);
  PrecisionChoice choice{*asked, reason_of(*asked, units)};
  if (*asked == Precision::kBf16 && !has_bf16(units))
    choice.warning = "--precision bf16 is emulated here, since " + name_of(units) +
                     ": it may be many times slower than --precision " +
                     precision_name(best_of(units)) + ".";
  return choice;
}

void use_precision(Precision precision) {
  // Sets LibTorch's older flag too: with only one of them set, its tunable operators fail.
  if (precision == Precision::kTf32) at::globalContext().setAllowTF32CuBLAS(true);
  if (precision == Precision::kBf16) keep_threads_apart();
}

c10::ScalarType type_of(Precision precision) {
  if (precision == Precision::kBf16) return c10::kBFloat16;
  return precision == Precision::kFp16 ? c10::kHalf : c10::kFloat;
}

at::Tensor forward(ImageModel& model, const at::Tensor& images, Precision precision) {
  const c10::ScalarType type = type_of(precision);
  if (type == c10::kFloat) return model.forward(images);
  const Autocast autocast(images.device().type(), type);
  return model.forward(images).to(c10::kFloat);
}

Outputs outputs_of(ImageModel& model, const at::Tensor& images, Precision precision) {
  const c10::ScalarType type = type_of(precision);
  std::optional<Autocast> autocast;
  if (type != c10::kFloat) autocast.emplace(images.device().type(), type);
  const at::Tensor features = model.pooled_features(images);
  const at::Tensor logits = model.logits_of(features);
  return {features.to(c10::kFloat), logits.to(c10::kFloat)};
}

ComputeUnits units_of(const Device& device) {
  return {.is_cuda = device.is_cuda,
          .capability = device.capability,
          .cpu_has_bf16 = cpu_has_bf16_units()};
}

at::Device torch_device(const Device& device) {
  return device.is_cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))
                        : at::Device(at::kCPU);
}

}  // namespace kiln
