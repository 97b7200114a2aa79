// BatchNorm of training with what follows it, on GPUs: y = relu((x - mean) * scale * weight + bias
// + added), where the addition and the ReLU may be left out, and its gradients. Ioffe and Szegedy,
// "Batch Normalization", 2015, arXiv:1502.03167. The same bits in every run on the same GPU.
//
// This is what the kernels (norm_kernels.cu), the operators that ask for them, and what launches
// them share; tests/gpu/fake launches them on a CPU. The kernels' compiler has no standard headers.
#pragma once

namespace kiln {

using NormIndex = unsigned;  // of rows and of vectors: up to 64 GiB of a map

// A map is channels_last: a matrix [rows, channels] without gaps at a multiple of 16 bytes, whose
// rows are of whole vectors of 16 bytes; maps are of one type. What belongs to a channel is
// float32, or float64 if maps are. A kernel reads and writes only what is said of it.
struct NormArguments {
  void *x, *added, *dy;                   // maps
  void* out;                              // y, du or dx
  unsigned char* bits;                    // for each vector of y, which of its numbers are positive
  void *mean, *scale;                     // [channels]; scale = 1 / sqrt(biased variance + epsilon)
  void *weight, *bias;                    // [channels]
  void *running_mean, *running_variance;  // [channels]; null: statistics() updates none
  void* sums;                             // [3, channels]; null: gradient() takes zeros
  void* partial;                          // [blocks, 2 channels + vectors], of kernels that sum
  unsigned* tickets;  // [tiles], zero before the first launch and after each; launch_norm() sets it
  double epsilon, momentum;  // running += momentum * (that of the batch, unbiased - running)
  double count;              // numbers of a channel that the sums are of
  NormIndex rows, vectors;   // vectors in a row
};

// Blocks of columns x rows threads, 256 at most: a thread owns a column of vectors. Blocks with the
// same columns, a tile, are beside each other.
struct NormGrid {
  unsigned tiles, blocks, columns, rows;
};

constexpr unsigned kMaxNormTiles = 4096;

// Launches a kernel by its name, "kiln_statistics_float32" (norm_kernels.cu lists them), on the
// current stream of the current device, which must be the same in all calls. Throws c10::Error.
void launch_norm(const char* kernel, const NormGrid& grid, NormArguments arguments);

unsigned num_multiprocessors();  // of the current device

// The compiled kernels: machine code for GPUs of this compute capability, times ten, and newer ones
// of the same major version; at last PTX, with 0, which the driver compiles for all others.
struct NormImage {
  int capability;
  const char* code;
};
constexpr unsigned kNumNormImages = 5;
extern const NormImage kNormImages[kNumNormImages];

}  // namespace kiln
