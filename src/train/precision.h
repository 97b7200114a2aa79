// The precision that the network computes in: its choice, and forward passes in it. Weights,
// gradients, the optimizer's state and BatchNorm's statistics are always float32. Micikevicius et
// al., "Mixed Precision Training", 2018, arXiv:1710.03740.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "model/image_model.h"
#include "parallel/device/device.h"
#include "record/vocabulary.h"

namespace kiln {

// The compute units of a rank.
struct ComputeUnits {
  bool is_cuda = false;
  int capability = 0;         // compute capability of the GPU times ten: 90 for 9.0
  bool cpu_has_bf16 = false;  // AMX or AVX512-BF16
};

// ComputeUnits::cpu_has_bf16 of this processor. Uses LibTorch, so call it only after
// choose_device().
bool cpu_has_bf16_units();

struct PrecisionChoice {
  Precision precision = Precision::kFp32;
  std::string reason;        // "auto: the GPU has compute capability 9.0"
  std::string warning = {};  // a sentence; empty: none
};

// From this side of images on, CPUs train faster in bfloat16, as measured for every family
// (docs/performance.md, "bfloat16 by network"). Below, it is at most a little faster alone, and
// slower beside other programs.
inline constexpr int kBf16Side = 128;

// `asked`: empty for auto, which chooses by what the units support, and on CPUs for a run on images
// of `side` pixels (the longer side) bfloat16 only from kBf16Side on. Without a side, for
// inference, it always gains. Throws as require_possible().
PrecisionChoice choose_precision(std::optional<Precision> asked, const ComputeUnits& units,
                                 int side = 0);

// Throws Error kUserError if the units do not support what was asked.
void require_possible(std::optional<Precision> asked, const ComputeUnits& units);

// For the whole process: whether float32 matrix products on GPUs may use TF32 (convolutions always
// may, as in PyTorch), and that its threads must not share cores (keep_threads_apart()) with
// bfloat16 on CPUs.
void use_precision(Precision precision);

// The type for autocast; kFloat if none is used.
c10::ScalarType type_of(Precision precision);

// The logits of `images`, in float32 under mixed precision.
at::Tensor forward(ImageModel& model, const at::Tensor& images, Precision precision);
// The same with the input of the head (ImageModel::pooled_features()), in float32, too.
struct Outputs {
  at::Tensor features, logits;
};
Outputs outputs_of(ImageModel& model, const at::Tensor& images, Precision precision);

// The chosen device as LibTorch's type, and as the units that the choice of precision needs.
at::Device torch_device(const Device& device);
ComputeUnits units_of(const Device& device);

}  // namespace kiln
