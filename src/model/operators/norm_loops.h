// The loops of BatchNorm with an addition and an activation, over feature maps as a matrix of
// [rows, channels] without gaps: channels_last, a row for each pixel. Each gives the same bits with
// any number of threads. They use LibTorch's OpenMP threads, and may be called from any thread.
//
// With u = (x - mean) * scale * weight + bias, y = activation(u + added), M rows, and du and dy the
// gradients of u and y:
//   dx = scale * weight * (du - sum(du) / M - (x - mean) * scale^2 * sum(du * (x - mean)) / M)
//   d weight = scale * sum(du * (x - mean)), d bias = sum(du)
// Ioffe and Szegedy, "Batch Normalization", 2015, arXiv:1502.03167.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/operators/maps.h"

namespace kiln {

// The type is that of x, y, and so on. What belongs to a channel is in arrays of the type that is
// computed with.
struct NormMaps {
  std::int64_t rows, channels;
  MapType type;
};

// Where statistics go: arrays of [channels]. scale = 1 / sqrt(biased variance + epsilon).
// running += momentum * (that of the batch - running), with the unbiased variance; null: none.
struct NormStatistics {
  void *mean, *scale, *running_mean, *running_variance;
  double momentum, epsilon;
};
// As LibTorch's: NaN without rows, and the unbiased variance of one row is NaN.
void mean_and_scale(const NormMaps& maps, const void* x, const NormStatistics& of);

struct NormChannels {
  const void *mean, *scale, *weight, *bias;  // [channels]
};

// Where u + added was positive, for gradient_sums(): so many bytes.
std::size_t num_bit_bytes(const NormMaps& maps);

// y. `added`: null for none; else the activation is ReLU, which writes `bits`, or none. NaN stays
// NaN.
void normalize(const NormMaps& maps, const NormChannels& of, Activation activation, const void* x,
               const void* added, void* y, void* bits);

// sums [2, channels]: sum(du), sum(du * (x - mean)). `bits`: those of normalize(), or null; with
// them also writes `du`.
void gradient_sums(const NormMaps& maps, const NormChannels& of, Activation activation,
                   const void* x, const void* dy, const void* bits, void* du, void* sums);

// dx. `means`: the sums over M, or null for zeros, if mean and scale are fixed. `dy`: of y, or that
// of u with Activation::kNone.
void input_gradient(const NormMaps& maps, const NormChannels& of, const void* means,
                    Activation activation, const void* x, const void* dy, void* dx);

}  // namespace kiln
