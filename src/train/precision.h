// What the network computes in: the choice, and a forward pass in it. Weights, gradients, the
// optimizer's state and BatchNorm's statistics are float32 in all of them. Micikevicius et al.,
// "Mixed Precision Training", 2018, arXiv:1710.03740.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "base/vocabulary.h"
#include "model/image_model.h"

namespace kiln {

// What a rank computes with.
struct ComputeUnits {
  bool is_cuda = false;
  int capability = 0;         // of a GPU, times ten: 90 for 9.0
  bool cpu_has_bf16 = false;  // AMX or AVX512-BF16
};

// Of this processor. Asks LibTorch, so only after choose_device().
bool cpu_has_bf16_units();

struct PrecisionChoice {
  Precision precision = Precision::kFp32;
  std::string reason;        // "auto: the GPU has compute capability 9.0"
  std::string warning = {};  // a sentence; empty: none
};

// `asked`: empty for auto, which goes by what these units can do. Throws Error kUserError where
// they cannot do what was asked.
PrecisionChoice choose_precision(std::optional<Precision> asked, const ComputeUnits& units);

// For the whole process: on GPUs, whether float32 products of matrices may use TF32. Convolutions
// may in any case, as in PyTorch.
void set_tf32(Precision precision);

// What autocast computes in: kFloat where there is none.
c10::ScalarType type_of(Precision precision);

// The logits of `images`, in float32 under mixed precision.
at::Tensor forward(ImageModel& model, const at::Tensor& images, Precision precision);
// Likewise what the head classifies.
at::Tensor pooled_features(ImageModel& model, const at::Tensor& images, Precision precision);

}  // namespace kiln
