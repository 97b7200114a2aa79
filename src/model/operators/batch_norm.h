// BatchNorm with what follows it as one operation: an addition and an activation.
//
// It is made of four operators that LibTorch finds by name, so that a device may bring its own:
// kiln::norm_statistics, norm_apply, norm_sums and norm_gradient (norm_loops.h has the formulas).
// Only x is kept for backward, and with an addition and ReLU a bit for each of its numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/operators/maps.h"
#include "model/operators/sync_batch_norm.h"

namespace kiln {

struct NormParameters {
  at::Tensor weight, bias;    // [C]
  RunningStatistics running;  // undefined tensors: nothing is updated
  double epsilon;
  bool uses_batch;   // its statistics, and updates the running ones; else uses those
  BatchRanks ranks;  // that share the batch; without `sum`: this one alone
};

// relu, hardswish or silu of x, which it may overwrite.
at::Tensor activated(at::Tensor x, Activation activation);

// The activation of normalized x [N, C, H, W] plus `added`, which may be undefined; with it ReLU or
// none. In x's type; statistics and sums are in the weight's. Differentiable in x, weight, bias and
// `added`. Same bits with any number of threads. By LibTorch's own operators where the device has
// none of ours, on CPUs without AVX-512, and with the environment's KILN_FUSED_NORM=0.
at::Tensor batch_norm(const at::Tensor& x, const NormParameters& of,
                      Activation activation = Activation::kNone, const at::Tensor& added = {});

}  // namespace kiln
