#include "model/operators/sync_batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_gather_stats_with_counts.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <vector>

#include "model/operators/shared_statistics.h"

namespace kiln {

double values_a_channel(const at::Tensor& x) {
  return static_cast<double>(x.numel() / x.size(1));
}

at::Tensor sums_of(const at::Tensor& mean, const at::Tensor& variance, double count) {
  const at::Tensor squares = variance + mean.square();
  return at::cat({mean * count, squares * count, at::full({1}, count, mean.options())});
}

BatchStatistics statistics_of(const at::Tensor& sums) {
  const std::int64_t channels = sums.size(0) / 2;
  const at::Tensor count = sums.narrow(0, 2 * channels, 1);
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor squares = sums.narrow(0, channels, channels) / count;
  const at::Tensor variance = (squares - mean.square()).clamp_min(0);
  return {mean, variance, count, variance * (count / (count - 1).clamp_min(1))};
}

namespace {

at::Tensor by_channel(const at::Tensor& values) {
  return values.view({1, -1, 1, 1});
}

// Wraps them so that autograd can keep them until backward.
struct KeptRanks : torch::CustomClassHolder, BatchRanks {
  explicit KeptRanks(BatchRanks kept) : BatchRanks(std::move(kept)) {}
};

// With xhat = (x - mean) / sqrt(variance + epsilon), M values per channel, and sums over all ranks:
//   d x      = weight / sqrt(variance + epsilon) * (dy - sum(dy) / M - xhat * sum(dy * xhat) / M)
//   d weight = this rank's sum(dy * xhat), d bias = this rank's sum(dy)
class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const RunningStatistics& running, double epsilon,
                            const c10::intrusive_ptr<KeptRanks>& ranks) {
    at::Tensor sums = local_sums(x);
    ranks->sum(sums);
    const auto [mean, variance, count, unbiased] = statistics_of(sums);
    if (count.item<double>() > 0) {  // else no rank has an image in this batch
      running.mean.lerp_(mean.to(running.mean.scalar_type()), running.momentum);
      running.variance.lerp_(unbiased.to(running.variance.scalar_type()), running.momentum);
    }
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
        c10::static_intrusive_pointer_cast<KeptRanks>(context->saved_data["ranks"].toCapsule());
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
  static at::Tensor local_sums(const at::Tensor& x) {
    if (x.numel() == 0) return at::zeros({2 * x.size(1) + 1}, x.options().dtype(at::kDouble));
    const auto [variance, local_mean] = at::var_mean(x, {0, 2, 3}, /*correction=*/at::Scalar(0));
    return sums_of(local_mean.to(at::kDouble), variance.to(at::kDouble), values_a_channel(x));
  }
};

// The same with LibTorch's CUDA operators, which read each tensor once and never block the host.
// `scale` is 1 / sqrt(variance + epsilon). The ranks' statistics are the rows of a matrix: each
// rank writes its own, and the sum over the ranks gathers them.
class SyncBatchNormOnGpu : public torch::autograd::Function<SyncBatchNormOnGpu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const RunningStatistics& running, double epsilon,
                            const c10::intrusive_ptr<KeptRanks>& ranks) {
    const at::Tensor x = given.contiguous(given.suggest_memory_format());
    const std::int64_t channels = x.size(1);
    at::Tensor all = at::zeros({ranks->size, 2 * channels + 1}, weight.options());
    at::Tensor mine = all.select(0, ranks->rank);
    at::cat_out(mine, local_statistics(x, weight, epsilon));
    ranks->sum(all);
    const at::Tensor counts = all.select(1, 2 * channels);
    // A rank without an image in this batch cannot tell, without waiting, whether the others have.
    const bool may_be_nothing = x.numel() == 0;
    RunningStatistics before = running;
    if (may_be_nothing) before = {running.mean.clone(), running.variance.clone(), running.momentum};
    const auto [mean, scale] = at::batch_norm_gather_stats_with_counts(
        x, all.narrow(1, 0, channels), all.narrow(1, channels, channels), running.mean,
        running.variance, running.momentum, epsilon, counts);
    if (may_be_nothing) {
      const at::Tensor is_nothing = counts.sum().lt(0.5);  // on the device
      for (const auto part : {&RunningStatistics::mean, &RunningStatistics::variance})
        (running.*part).copy_(at::where(is_nothing, before.*part, running.*part));
    }
    context->save_for_backward({x, weight, mean, scale, counts.to(at::kInt)});
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    if (x.numel() == 0) return at::empty_like(x);
    return at::batch_norm_elemt(x, weight, bias, mean, scale, epsilon);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3];
    const at::Tensor& counts = saved[4];
    const auto ranks =
        c10::static_intrusive_pointer_cast<KeptRanks>(context->saved_data["ranks"].toCapsule());
    if (x.numel() == 0) {
      at::Tensor sums = at::zeros({2 * x.size(1)}, weight.options());
      ranks->sum(sums);
      return {at::empty_like(x), at::zeros_like(weight), at::zeros_like(weight), {}, {}, {}};
    }
    const at::Tensor dy = gradients[0].contiguous(x.suggest_memory_format());
    const auto [dy_sum, dy_x_sum, d_weight, d_bias] = at::batch_norm_backward_reduce(
        dy, x, mean, scale, weight, /*input_g=*/true, /*weight_g=*/true, /*bias_g=*/true);
    at::Tensor sums = at::cat({dy_sum, dy_x_sum});
    ranks->sum(sums);
    const std::vector<at::Tensor> both = sums.chunk(2);
    const at::Tensor d_x =
        at::batch_norm_backward_elemt(dy, x, mean, scale, weight, both[0], both[1], counts);
    return {d_x, d_weight, d_bias, {}, {}, {}};
  }

 private:
  // What an empty batch counts as: nothing, for the gathering kernel divides by the count so far.
  static constexpr double kNothing = 1e-30;

  static std::vector<at::Tensor> local_statistics(const at::Tensor& x, const at::Tensor& weight,
                                                  double epsilon) {
    if (x.numel() == 0)
      return {at::zeros_like(weight), at::ones_like(weight),
              at::full({1}, kNothing, weight.options())};
    const auto [mean, scale] = at::batch_norm_stats(x, epsilon);
    return {mean, scale, at::full({1}, values_a_channel(x), mean.options())};
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const RunningStatistics& running, double epsilon,
                           const BatchRanks& ranks) {
  const auto kept = c10::make_intrusive<KeptRanks>(ranks);
  if (x.is_cuda()) return SyncBatchNormOnGpu::apply(x, weight, bias, running, epsilon, kept);
  const at::Tensor wide = x.to(weight.scalar_type());
  return SyncBatchNorm::apply(wide, weight, bias, running, epsilon, kept).to(x.scalar_type());
}

}  // namespace kiln
