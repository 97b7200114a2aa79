#include "model/layers.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/max_pool2d.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "model/operators/autocast.h"
#include "model/operators/depthwise.h"
#include "model/operators/small_map_convolution.h"

namespace kiln {
namespace {

constexpr NormPlan kUsualNorm;

}  // namespace

Conv2d::Conv2d(const ConvShape& shape)
    : stride_(shape.stride), padding_(padding_of(shape.kernel)), groups_(shape.groups) {
  weight_ =
      register_parameter("weight", at::empty({shape.out_channels, shape.in_channels / shape.groups,
                                              shape.kernel, shape.kernel}));
  if (shape.has_bias) shift_ = register_parameter("bias", at::empty({shape.out_channels}));
}

at::Tensor Conv2d::forward(const at::Tensor& x) const {
  if (FusedConvolution* fused = fused_for(x)) return fused->forward(x, Activation::kNone, {});
  const ConvSteps steps{stride_, padding_};
  if (is_training() && is_small_map(x, weight_, steps))
    return small_map_convolution(x, weight_, shift_, steps);
  // On a map of one pixel only the middle of the kernel counts. There oneDNN's bfloat16 kernels for
  // AMX leave the rest of the weight's gradient uninitialized if the stride is 2.
  if (padding_ > 0 && x.size(2) == 1 && x.size(3) == 1 && x.is_cpu() &&
      Autocast::type_on(c10::kCPU) == c10::kBFloat16) {
    const at::Tensor middle = weight_.narrow(2, padding_, 1).narrow(3, padding_, 1);
    constexpr std::array<std::int64_t, 2> kStride{1, 1}, kPadding{0, 0}, kDilation{1, 1};
    return at::conv2d(x, middle, shift_, at::IntArrayRef(kStride), at::IntArrayRef(kPadding),
                      at::IntArrayRef(kDilation), groups_);
  }
  if (is_own_depthwise(x, weight_, stride_, groups_))
    return depthwise_convolution(x, weight_, shift_, stride_);
  return at::conv2d(x, weight_, shift_, stride_, padding_, /*dilation=*/1, groups_);
}

// Computes in double, so that the only error is the final rounding to the weights' type.
void Conv2d::fold_in(const at::Tensor& scale, const at::Tensor& shift) {
  const at::NoGradGuard no_grad;
  weight_.copy_(weight_.to(at::kDouble) * scale.view({-1, 1, 1, 1}));
  // On a GPU its cast is kept like that of the weight (KeptCasts); a trace of a network for export
  // could not have it as a constant.
  shift_ = shift.to(weight_.scalar_type()).set_requires_grad(weight_.is_cuda());
}

void Conv2d::fuse() {
  fused_ = std::make_unique<FusedConvolution>(weight_, shift_, stride_, groups_);
}

FusedConvolution* Conv2d::fused_for(const at::Tensor& x) const {
  return fused_ && can_fuse(x) ? fused_.get() : nullptr;
}

BatchNorm2d::BatchNorm2d(std::shared_ptr<Conv2d> before, const NormPlan& plan)
    : BatchNorm2d(before->out_channels(), plan) {
  before_ = std::move(before);
}

BatchNorm2d::BatchNorm2d(std::int64_t channels, const NormPlan& plan) : plan_(plan) {
  weight_ = register_parameter("weight", at::ones({channels}));
  bias_ = register_parameter("bias", at::zeros({channels}));
  running_mean_ = register_buffer("running_mean", at::zeros({channels}));
  running_var_ = register_buffer("running_var", at::ones({channels}));
  num_batches_tracked_ = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

at::Tensor BatchNorm2d::forward(const at::Tensor& x) {
  if (is_folded_) return x;
  if (is_training() && ranks_.sum)
    return sync_batch_norm(x, weight_, bias_, {running_mean_, running_var_, plan_.momentum},
                           plan_.epsilon, ranks_);
  return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, is_training(),
                        plan_.momentum, plan_.epsilon, at::globalContext().userEnabledCuDNN());
}

at::Tensor BatchNorm2d::convolved(const at::Tensor& x, Activation activation,
                                  const std::function<at::Tensor()>& added) {
  if (FusedConvolution* fused = is_folded_ ? before_->fused_for(x) : nullptr)
    return fused->forward(x, activation, added ? added() : at::Tensor());
  return activated_norm(before_->forward(x), activation, added);
}

at::Tensor BatchNorm2d::activated_norm(const at::Tensor& x, Activation activation,
                                       const std::function<at::Tensor()>& added) {
  if (fuses_activation_ && !is_folded_) {
    const NormParameters of{.weight = weight_,
                            .bias = bias_,
                            .running = {running_mean_, running_var_, plan_.momentum},
                            .epsilon = plan_.epsilon,
                            .uses_batch = is_training(),
                            .ranks = ranks_};
    const bool has_relu = activation == Activation::kRelu;
    if (can_fuse_norm(x, of))
      return activated(fused_norm(x, of, has_relu, added ? added() : at::Tensor()),
                       has_relu ? Activation::kNone : activation);
  }
  at::Tensor out = forward(x);
  if (added) out.add_(added());
  return activated(std::move(out), activation);
}

at::Tensor BatchNorm2d::joined_relu(const std::vector<at::Tensor>& maps) {
  if (fuses(maps.front())) return kiln::joined_relu(maps, scale_, shift_, /*side=*/1);
  return activated_norm(at::cat(maps, 1), Activation::kRelu);
}

at::Tensor BatchNorm2d::joined_relu_means(const std::vector<at::Tensor>& maps) const {
  return kiln::joined_relu(maps, scale_, shift_, /*side=*/2);
}

std::array<at::Tensor, 2> BatchNorm2d::fixed_statistics() const {
  if (is_training()) return {};
  return {running_mean_, running_var_};
}

at::Tensor BatchNorm2d::normalize_again(const at::Tensor& x, const at::Tensor& weight,
                                        const at::Tensor& bias,
                                        const std::array<at::Tensor, 2>& fixed) {
  const auto& [mean, variance] = fixed;
  return at::batch_norm(x, weight, bias, mean, variance, /*training=*/!mean.defined(),
                        kUsualNorm.momentum, kUsualNorm.epsilon,
                        at::globalContext().userEnabledCuDNN());
}

void BatchNorm2d::fold() {
  if (!before_ || is_folded_) return;
  const auto [scale, shift] = scale_and_shift();
  before_->fold_in(scale, shift);
  is_folded_ = true;
}

void BatchNorm2d::fuse() {
  if (before_) return;
  const auto [scale, shift] = scale_and_shift();
  scale_ = scale.to(at::kFloat);
  shift_ = shift.to(at::kFloat);
}

std::array<at::Tensor, 2> BatchNorm2d::scale_and_shift() const {
  const at::NoGradGuard no_grad;
  const at::Tensor scale =
      weight_.to(at::kDouble) / (running_var_.to(at::kDouble) + plan_.epsilon).sqrt();
  return {scale, bias_.to(at::kDouble) - running_mean_.to(at::kDouble) * scale};
}

Linear::Linear(std::int64_t in_features, std::int64_t out_features) {
  weight_ = register_parameter("weight", at::empty({out_features, in_features}));
  bias_ = register_parameter("bias", at::empty({out_features}));
}

void Linear::initialize() {
  const at::NoGradGuard no_grad;
  const double bound = 1.0 / std::sqrt(static_cast<double>(weight_.size(1)));
  weight_.uniform_(-bound, bound);
  bias_.uniform_(-bound, bound);
}

// LibTorch would convert and rearrange the weights in each call.
at::Tensor Linear::forward(const at::Tensor& x) const {
  if (const at::Tensor input = fused_ ? fusable(x) : at::Tensor(); input.defined()) {
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::DispatchKey::AutocastCPU);
    return fused_->forward(input.view({-1, input.size(1), 1, 1}), Activation::kNone, {}).flatten(1);
  }
  return at::linear(x, weight_, bias_);
}

void Linear::fuse() {
  fused_ = std::make_unique<FusedConvolution>(weight_.view({weight_.size(0), -1, 1, 1}), bias_,
                                              /*stride=*/1, /*groups=*/1);
}

at::Tensor MaxPool::forward(const at::Tensor& x) {
  return fused_ && can_fuse(x) ? fused_->forward(x) : at::max_pool2d(x, 3, 2, 1);
}

LayerNorm::LayerNorm(std::int64_t channels, double epsilon) : epsilon_(epsilon) {
  weight_ = register_parameter("weight", at::ones({channels}));
  bias_ = register_parameter("bias", at::zeros({channels}));
}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  return at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon_);
}

at::Tensor Drop::forward(const at::Tensor& x) const {
  if (width() == 0) return x;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape.front() = x.size(0);
  if (width_ > 1) shape.back() = width_;
  return x * mask_.to(x.scalar_type()).div(1 - rate_).view(shape);
}

at::Tensor Chain::forward(const at::Tensor& x) {
  at::Tensor y = x;
  for (const auto& layer : layers_) y = layer->forward(y);
  return y;
}

void Chain::count(KeptNumbers& kept) const {
  for (const auto& layer : layers_) layer->count(kept);
}

void KeptNumbers::add(const Conv2d& conv) {
  area /= static_cast<double>(conv.stride() * conv.stride());
  add(2 * conv.out_channels());
}

void KeptNumbers::add_pooled(std::int64_t channels) {
  area /= 4;
  add(channels);
  indices += static_cast<double>(channels) * area;
}

ConvNorm::ConvNorm(const ConvShape& shape, Activation activation, const NormPlan& norm)
    : activation_(activation) {
  conv_ = register_module("0", std::make_shared<Conv2d>(shape));
  norm_ = register_module("1", std::make_shared<BatchNorm2d>(conv_, norm));
}

void ConvNorm::count(KeptNumbers& kept) const {
  kept.add(*conv_);  // with what is normalized
  const bool keeps_input =
      activation_ == Activation::kHardswish || activation_ == Activation::kSilu;
  if (keeps_input) kept.add(conv_->out_channels());
}

int StageNames::of(const std::string& name, int stage) const {
  if (!name.starts_with(prefix)) return stage;
  return (std::atoi(name.c_str() + prefix.size()) + offset) / in_stage;
}

ChainNetwork::ChainNetwork() {
  features_ = register_module("features", std::make_shared<Chain>());
  classifier_ = register_module("classifier", std::make_shared<torch::nn::Module>());
}

void ChainNetwork::add_head(const char* name, std::int64_t in_features, std::int64_t out_features) {
  head_ = classifier_->register_module(name, std::make_shared<Linear>(in_features, out_features));
}

Kept ChainNetwork::kept() const {
  KeptNumbers kept;
  features_->count(kept);
  return kept;
}

void init_convolutions(Network& network, Fan fan) {
  const at::NoGradGuard no_grad;
  for (const auto& module : network.modules()) {
    auto* conv = module->as<Conv2d>();
    if (conv == nullptr) continue;
    at::Tensor& weight = conv->weight();
    const std::int64_t channels = weight.size(fan == Fan::kIn ? 1 : 0);
    weight.normal_(
        0.0, std::sqrt(2.0 / static_cast<double>(channels * weight.size(2) * weight.size(3))));
    if (conv->bias().defined()) conv->bias().zero_();
  }
}

}  // namespace kiln
