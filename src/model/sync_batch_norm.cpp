#include "model/sync_batch_norm.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <vector>

namespace kiln {
namespace {

at::Tensor by_channel(const at::Tensor& values) {
  return values.view({1, -1, 1, 1});
}

// Wraps the function so that autograd can keep it until backward.
struct KeptSum : torch::CustomClassHolder {
  explicit KeptSum(SumOverRanks kept) : sum(std::move(kept)) {}
  SumOverRanks sum;
};

// float64 [2 C + 1]: sums, sums of squares, number of values per channel. `mean` and the biased
// `variance`, float64 [C], are those of `count` values.
at::Tensor sums_of(const at::Tensor& mean, const at::Tensor& variance, double count) {
  const at::Tensor squares = variance + mean.square();
  return at::cat({mean * count, squares * count, at::full({1}, count, mean.options())});
}

at::Tensor sums_of_nothing(const at::Tensor& x) {
  return at::zeros({2 * x.size(1) + 1}, x.options().dtype(at::kDouble));
}

double values_a_channel(const at::Tensor& x) {
  return static_cast<double>(x.numel() / x.size(1));
}

// The statistics over all ranks, from the all-reduced sums.
BatchStatistics statistics_of(const at::Tensor& sums) {
  const std::int64_t channels = sums.size(0) / 2;
  const at::Tensor count = sums.narrow(0, 2 * channels, 1);
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor squares = sums.narrow(0, channels, channels) / count;
  return {mean, (squares - mean.square()).clamp_min(0), count};
}

// With xhat = (x - mean) / sqrt(variance + epsilon), M values per channel, and sums over all ranks:
//   d x      = weight / sqrt(variance + epsilon) * (dy - sum(dy) / M - xhat * sum(dy * xhat) / M)
//   d weight = this rank's sum(dy * xhat), d bias = this rank's sum(dy)
class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, double epsilon,
                            const c10::intrusive_ptr<KeptSum>& ranks, BatchStatistics* statistics) {
    at::Tensor sums = local_sums(x);
    ranks->sum(sums);
    *statistics = statistics_of(sums);
    const auto& [mean, variance, count] = *statistics;
    const at::Tensor scale = (variance + epsilon).rsqrt();
    const at::Tensor normalized =
        (x - by_channel(mean.to(x.scalar_type()))) * by_channel(scale.to(x.scalar_type()));
    context->save_for_backward({normalized, weight, scale, count});
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    return normalized * by_channel(weight) + by_channel(bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &normalized = saved[0], &weight = saved[1], &scale = saved[2];
    const at::Tensor& count = saved[3];
    const auto ranks =
        c10::static_intrusive_pointer_cast<KeptSum>(context->saved_data["ranks"].toCapsule());
    const at::Tensor& dy = gradients[0];
    const at::Tensor d_bias = dy.sum({0, 2, 3}), d_weight = (dy * normalized).sum({0, 2, 3});
    at::Tensor sums = at::cat({d_bias, d_weight}).to(at::kDouble);
    ranks->sum(sums);
    const at::Tensor means = (sums / count).to(dy.scalar_type());
    const std::int64_t channels = weight.size(0);
    const at::Tensor d_x = by_channel(weight * scale.to(dy.scalar_type())) *
                           (dy - by_channel(means.narrow(0, 0, channels)) -
                            normalized * by_channel(means.narrow(0, channels, channels)));
    return {d_x, d_weight, d_bias, {}, {}, {}};
  }

 private:
  // Starts from the variance around the local mean, since plain float32 sums of squares would
  // suffer from cancellation.
  static at::Tensor local_sums(const at::Tensor& x) {
    if (x.numel() == 0) return sums_of_nothing(x);
    const auto [variance, mean] = at::var_mean(x, {0, 2, 3}, /*correction=*/at::Scalar(0));
    return sums_of(mean.to(at::kDouble), variance.to(at::kDouble), values_a_channel(x));
  }
};

// The same with LibTorch's CUDA operators, which read each tensor once and never block the host.
// `scale` is 1 / sqrt(variance + epsilon).
class SyncBatchNormOnGpu : public torch::autograd::Function<SyncBatchNormOnGpu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& weight, const at::Tensor& bias, double epsilon,
                            const c10::intrusive_ptr<KeptSum>& ranks, BatchStatistics* statistics) {
    const at::Tensor x = given.contiguous(given.suggest_memory_format());
    at::Tensor sums = local_sums(x, epsilon);
    ranks->sum(sums);
    *statistics = statistics_of(sums);
    const at::Tensor mean = statistics->mean.to(x.scalar_type());
    const at::Tensor scale = (statistics->variance + epsilon).rsqrt().to(x.scalar_type());
    context->save_for_backward({x, weight, mean, scale, statistics->count.to(at::kInt)});
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    if (x.numel() == 0) return at::empty_like(x);
    return at::batch_norm_elemt(x, weight, bias, mean, scale, epsilon);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3];
    const at::Tensor& count = saved[4];
    const auto ranks =
        c10::static_intrusive_pointer_cast<KeptSum>(context->saved_data["ranks"].toCapsule());
    if (x.numel() == 0) {
      at::Tensor sums = at::zeros({2 * x.size(1)}, x.options().dtype(at::kDouble));
      ranks->sum(sums);
      return {at::empty_like(x), at::zeros_like(weight), at::zeros_like(weight), {}, {}, {}};
    }
    const at::Tensor dy = gradients[0].contiguous(x.suggest_memory_format());
    const auto [dy_sum, dy_x_sum, d_weight, d_bias] = at::batch_norm_backward_reduce(
        dy, x, mean, scale, weight, /*input_g=*/true, /*weight_g=*/true, /*bias_g=*/true);
    at::Tensor sums = at::cat({dy_sum, dy_x_sum}).to(at::kDouble);
    ranks->sum(sums);
    const std::vector<at::Tensor> all = sums.to(mean.scalar_type()).chunk(2);
    const at::Tensor d_x =
        at::batch_norm_backward_elemt(dy, x, mean, scale, weight, all[0], all[1], count);
    return {d_x, d_weight, d_bias, {}, {}, {}};
  }

 private:
  static at::Tensor local_sums(const at::Tensor& x, double epsilon) {
    if (x.numel() == 0) return sums_of_nothing(x);
    const auto [mean, scale] = at::batch_norm_stats(x, epsilon);
    const at::Tensor variance = scale.to(at::kDouble).square().reciprocal() - epsilon;
    return sums_of(mean.to(at::kDouble), variance, values_a_channel(x));
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           double epsilon, const SumOverRanks& sum, BatchStatistics* statistics) {
  const auto kept = c10::make_intrusive<KeptSum>(sum);
  return x.is_cuda() ? SyncBatchNormOnGpu::apply(x, weight, bias, epsilon, kept, statistics)
                     : SyncBatchNorm::apply(x, weight, bias, epsilon, kept, statistics);
}

}  // namespace kiln
