// The operators of model/operators/fused_norm.h, for LibTorch's dispatcher on GPUs.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "modules/cuda/norm_kernels.h"

namespace kiln {
namespace {

using In = const at::Tensor&;
using Maybe = const std::optional<at::Tensor>&;
using Two = std::tuple<at::Tensor, at::Tensor>;

void* data_of(In tensor) {
  return const_cast<void*>(tensor.const_data_ptr());
}
void* data_of(Maybe tensor) {
  return tensor ? data_of(*tensor) : nullptr;
}

const char* type_name(In x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return "_float32";
    case at::kHalf:
      return "_float16";
    case at::kBFloat16:
      return "_bfloat16";
    default:
      TORCH_CHECK(x.scalar_type() == at::kDouble, "norms of ", x.scalar_type());
      return "_float64";
  }
}

// Of what is computed with.
at::TensorOptions wide(In x) {
  return at::device(x.device()).dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

NormArguments arguments_of(In x) {
  constexpr std::int64_t kVector = 16;  // bytes
  const std::int64_t width = kVector / x.element_size(), vectors = x.numel() / width;
  TORCH_CHECK(x.is_contiguous(at::MemoryFormat::ChannelsLast) && x.size(1) % width == 0 &&
                  reinterpret_cast<std::uintptr_t>(data_of(x)) % kVector == 0 &&
                  vectors <= std::numeric_limits<NormIndex>::max(),
              "not a map for the kernels of norms");
  NormArguments given{};
  given.x = data_of(x);
  given.rows = static_cast<NormIndex>(x.numel() / x.size(1));
  given.vectors = static_cast<NormIndex>(x.size(1) / width);
  return given;
}

// `of`: mean, scale, weight, bias.
NormArguments arguments_of(In x, at::TensorList of) {
  NormArguments given = arguments_of(x);
  given.mean = data_of(of[0]);
  given.scale = data_of(of[1]);
  given.weight = data_of(of[2]);
  given.bias = data_of(of[3]);
  return given;
}

// `blocks`: as many as a multiprocessor holds at a time; fewer if a thread had less than four rows.
void launch(const std::string& kernel, unsigned blocks, bool sums, In x, NormArguments given) {
  constexpr unsigned kThreads = 256, kFewRows = 4, kSumming = 8, kOther = 32;  // columns at most
  const auto parts = [](unsigned whole, unsigned part) { return (whole + part - 1) / part; };
  const c10::DeviceGuard on(x.device());
  NormGrid grid{};
  grid.tiles = parts(given.vectors, sums ? kSumming : kOther);
  grid.columns = parts(given.vectors, grid.tiles);
  grid.rows = kThreads / grid.columns;
  grid.blocks = std::min(parts(num_multiprocessors() * blocks, grid.tiles),
                         parts(given.rows, kFewRows * grid.rows));
  TORCH_CHECK(grid.blocks > 0 && grid.tiles <= kMaxNormTiles, "a map of no or too many numbers");
  const std::int64_t numbers = sums ? grid.blocks * (2 * x.size(1) + given.vectors) : 0;
  const at::Tensor partial = at::empty({numbers}, wide(x));
  given.partial = data_of(partial);
  launch_norm(("kiln_" + kernel + type_name(x)).c_str(), grid, given);
}

Two norm_statistics(In x, Maybe running_mean, Maybe running_variance, double momentum,
                    double epsilon) {
  at::Tensor mean = at::empty({x.size(1)}, wide(x)), scale = at::empty_like(mean);
  NormArguments given = arguments_of(x);
  given.mean = data_of(mean);
  given.scale = data_of(scale);
  given.running_mean = data_of(running_mean);
  given.running_variance = data_of(running_variance);
  given.momentum = momentum;
  given.epsilon = epsilon;
  launch("statistics", 4, /*sums=*/true, x, given);
  return {mean, scale};
}

Two norm_apply(In x, Maybe added, at::TensorList of, bool has_relu) {
  NormArguments given = arguments_of(x, of);
  const std::int64_t vectors = static_cast<std::int64_t>(given.vectors) * given.rows;
  at::Tensor y = at::empty_like(x);
  at::Tensor bits = at::empty({added && has_relu ? vectors : 0}, x.options().dtype(at::kByte));
  if (x.numel() == 0) return {y, bits};
  given.added = data_of(added);
  given.out = data_of(y);
  given.bits = static_cast<unsigned char*>(data_of(bits));
  launch(std::string("normalize") + (added ? "_add" : "") + (has_relu ? "_relu" : ""), 4,
         /*sums=*/false, x, given);
  return {y, bits};
}

Two norm_sums(In x, In dy, In bits, at::TensorList of, bool has_relu) {
  const bool has_bits = bits.numel() > 0;
  at::Tensor du = has_bits ? at::empty_like(x) : at::empty({0}, x.options());
  at::Tensor sums = at::empty({3, x.size(1)}, wide(x));
  NormArguments given = arguments_of(x, of);
  given.dy = data_of(dy);
  given.bits = static_cast<unsigned char*>(data_of(bits));
  given.out = data_of(du);
  given.sums = data_of(sums);
  launch(std::string("sum_gradients") + (has_bits   ? "_bits"
                                         : has_relu ? "_relu"
                                                    : ""),
         3,
         /*sums=*/true, x, given);
  return {du, sums};
}

at::Tensor norm_gradient(In x, In dy, Maybe sums, double count, at::TensorList of, bool has_relu) {
  at::Tensor dx = at::empty_like(x);
  if (x.numel() == 0) return dx;
  NormArguments given = arguments_of(x, of);
  given.dy = data_of(dy);
  given.sums = data_of(sums);
  given.count = count;
  given.out = data_of(dx);
  launch(has_relu ? "gradient_relu" : "gradient", 3, /*sums=*/false, x, given);
  return dx;
}

TORCH_LIBRARY_IMPL(kiln, CUDA, m) {
  m.impl("norm_statistics", norm_statistics);
  m.impl("norm_apply", norm_apply);
  m.impl("norm_sums", norm_sums);
  m.impl("norm_gradient", norm_gradient);
}

}  // namespace
}  // namespace kiln
