// BatchNorm with what follows it as one operation on GPUs: y = relu((x - mean) * scale * weight +
// bias + added), where the addition and the ReLU may be left out.
//
// It is made of four operators that LibTorch's dispatcher finds by name, kiln::norm_statistics,
// norm_apply, norm_sums and norm_gradient; the GPU module brings them, and its norm_kernels.h has
// the formulas. Only x is kept for backward, and with an addition and ReLU a bit for each of its
// numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "model/operators/sync_batch_norm.h"

namespace kiln {

struct NormParameters {
  at::Tensor weight, bias;  // [C]
  RunningStatistics running;
  double epsilon;
  bool uses_batch;   // its statistics, and updates the running ones; else uses those
  BatchRanks ranks;  // that share the batch; without `sum`: this one alone
};

// Whether fused_norm() takes x: on a GPU, with a number of channels and types that its kernels
// have. The same on all ranks that share a batch.
bool can_fuse_norm(const at::Tensor& x, const NormParameters& of);

// x [N, C, H, W] normalized, plus `added` if that is defined, and rectified with `has_relu`. In x's
// type; statistics and sums are in the weight's. Differentiable in x, weight, bias and `added`. The
// same bits in every run. Does not block the host except where the ranks' `sum` does.
at::Tensor fused_norm(const at::Tensor& x, const NormParameters& of, bool has_relu,
                      const at::Tensor& added = {});

// Small maps of `type`, float16, bfloat16 or float32, through fused_norm() and LibTorch's
// operators: why the former cannot be used on this device; empty: it can. Blocks the host.
std::string fused_norm_fault(const at::Device& device, at::ScalarType type);

}  // namespace kiln
