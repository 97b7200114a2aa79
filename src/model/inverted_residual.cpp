#include "model/inverted_residual.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/hardsigmoid.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace kiln {
namespace {

// Weights each channel by what the means of all channels say. Hu et al., arXiv:1709.01507.
// MobileNetV3 has piecewise linear functions in it, EfficientNet smooth ones.
class SqueezeExcitation : public Layer {
 public:
  explicit SqueezeExcitation(const InvertedShape& shape)
      : is_smooth_(shape.activation == Activation::kSilu) {
    const auto add = [&](const char* name, std::int64_t in_channels, std::int64_t out_channels) {
      return register_module(
          name, std::make_shared<Conv2d>(ConvShape{in_channels, out_channels, 1, /*stride=*/1,
                                                   /*groups=*/1, /*has_bias=*/true}));
    };
    fc1_ = add("fc1", shape.inner_channels, shape.squeezed_channels);
    fc2_ = add("fc2", shape.squeezed_channels, shape.inner_channels);
  }

  at::Tensor forward(const at::Tensor& x) override {
    const bool keeps = at::GradMode::is_enabled();  // the input, for backward
    // On CPUs LibTorch takes three to four times as long for means of bfloat16. On GPUs one thread
    // would add up all pixels of a channel.
    const at::Tensor means = keeps || !x.is_cpu() || x.scalar_type() != c10::kBFloat16
                                 ? x.mean({2, 3}, /*keepdim=*/true)
                                 : at::avg_pool2d(x, {x.size(2), x.size(3)});
    const at::Tensor squeezed = fc1_->forward(means);
    const at::Tensor excited =
        fc2_->forward(activated(squeezed, is_smooth_ ? Activation::kSilu : Activation::kRelu));
    const at::Tensor shares = is_smooth_ ? excited.sigmoid() : at::hardsigmoid(excited);
    return keeps ? x * shares : at::Tensor(x).mul_(shares);
  }

  void count(KeptNumbers& kept) const override { kept.add(fc2_->out_channels()); }

 private:
  bool is_smooth_;
  std::shared_ptr<Conv2d> fc1_, fc2_;
};

class InvertedResidual : public Layer {
 public:
  explicit InvertedResidual(const InvertedShape& shape)
      : adds_(shape.stride == 1 && shape.in_channels == shape.out_channels) {
    block_ = register_module("block", std::make_shared<Chain>());
    if (shape.is_fused)
      add_fused(shape);
    else
      add_separate(shape);
    drop_ =
        register_module("stochastic_depth", std::make_shared<Drop>(adds_ ? shape.drop_rate : 0));
  }

  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor y = block_->forward(x);
    return adds_ ? drop_->forward(y).add_(x) : y;
  }

  void count(KeptNumbers& kept) const override { block_->count(kept); }

 private:
  void add(const ConvShape& conv, const InvertedShape& shape, Activation activation) {
    block_->add(std::make_shared<ConvNorm>(conv, activation, shape.norm));
  }

  void add_fused(const InvertedShape& shape) {
    const bool widens = shape.inner_channels != shape.in_channels;
    add({shape.in_channels, widens ? shape.inner_channels : shape.out_channels, shape.kernel,
         shape.stride},
        shape, shape.activation);
    if (widens) add({shape.inner_channels, shape.out_channels, 1}, shape, Activation::kNone);
  }

  void add_separate(const InvertedShape& shape) {
    const std::int64_t inner = shape.inner_channels;
    if (inner != shape.in_channels) add({shape.in_channels, inner, 1}, shape, shape.activation);
    add({inner, inner, shape.kernel, shape.stride, inner}, shape, shape.activation);
    if (shape.squeezed_channels > 0) block_->add(std::make_shared<SqueezeExcitation>(shape));
    add({inner, shape.out_channels, 1}, shape, Activation::kNone);
  }

  bool adds_;
  std::shared_ptr<Chain> block_;
  std::shared_ptr<Drop> drop_;
};

}  // namespace

std::int64_t multiple_of_8(double channels) {
  const std::int64_t near =
      std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(near) < 0.9 * channels ? near + 8 : near;
}

std::shared_ptr<Layer> make_inverted_residual(const InvertedShape& shape) {
  return std::make_shared<InvertedResidual>(shape);
}

}  // namespace kiln
