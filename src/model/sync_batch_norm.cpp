#include "model/sync_batch_norm.h"

#include <torch/torch.h>

namespace kiln {
namespace {

at::Tensor by_channel(const at::Tensor& values) {
  return values.view({1, -1, 1, 1});
}

// What autograd keeps of a function until backward.
struct KeptSum : torch::CustomClassHolder {
  explicit KeptSum(SumOverRanks kept) : sum(std::move(kept)) {}
  SumOverRanks sum;
};

// With xhat = (x - mean) / sqrt(variance + epsilon), M values a channel, sums over all ranks:
//   d x      = weight / sqrt(variance + epsilon) * (dy - sum(dy) / M - xhat * sum(dy * xhat) / M)
//   d weight = this rank's sum(dy * xhat), d bias = this rank's sum(dy)
class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, double epsilon,
                            const c10::intrusive_ptr<KeptSum>& ranks, BatchStatistics* statistics) {
    const at::Tensor local = local_sums(x);
    at::Tensor sums = local;
    ranks->sum(sums);
    const std::int64_t channels = x.size(1);
    const at::Tensor count = sums.narrow(0, 2 * channels, 1);
    const at::Tensor mean = sums.narrow(0, 0, channels) / count;
    const at::Tensor variance =
        (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min(0);
    const at::Tensor scale = (variance + epsilon).rsqrt();
    const at::Tensor normalized =
        (x - by_channel(mean.to(x.scalar_type()))) * by_channel(scale.to(x.scalar_type()));
    *statistics = {mean, variance, count};
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
    at::Tensor sums = torch::cat({d_bias, d_weight}).to(torch::kFloat64);
    ranks->sum(sums);
    const at::Tensor means = (sums / count).to(dy.scalar_type());
    const std::int64_t channels = weight.size(0);
    const at::Tensor d_x = by_channel(weight * scale.to(dy.scalar_type())) *
                           (dy - by_channel(means.narrow(0, 0, channels)) -
                            normalized * by_channel(means.narrow(0, channels, channels)));
    return {d_x, d_weight, d_bias, {}, {}, {}};
  }

 private:
  // float64 [2 C + 1]: sums, sums of squares, values a channel. Squares are summed about the local
  // mean first, since float32 squares of large values would cancel.
  static at::Tensor local_sums(const at::Tensor& x) {
    const auto options = x.options().dtype(torch::kFloat64);
    const std::int64_t values = x.numel() / x.size(1);
    const auto count = static_cast<double>(values);
    at::Tensor sums = torch::zeros({2 * x.size(1) + 1}, options);
    if (x.numel() == 0) return sums;
    const auto [variance, mean] = at::var_mean(x, {0, 2, 3}, /*correction=*/at::Scalar(0));
    const at::Tensor mean64 = mean.to(torch::kFloat64);
    const at::Tensor squares = variance.to(torch::kFloat64) + mean64.square();
    return torch::cat({mean64 * count, squares * count, torch::full({1}, count, options)});
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           double epsilon, const SumOverRanks& sum, BatchStatistics* statistics) {
  return SyncBatchNorm::apply(x, weight, bias, epsilon, c10::make_intrusive<KeptSum>(sum),
                              statistics);
}

}  // namespace kiln
