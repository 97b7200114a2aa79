#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "model/networks.h"

namespace kiln {
namespace {

constexpr double kLayerScale = 1e-6;
constexpr double kDeviation = 0.02;  // of initial weights

struct ConvNeXtShape {
  std::array<int, 4> num_blocks;
  double branch_drop;                // of the last branch; from 0, linearly
  std::int64_t first_channels = 96;  // doubled by each stage
};

// Of feature maps in the order of channels_last, whose pixels are vectors without a copy.
at::Tensor vectors_of(const at::Tensor& maps) {
  return maps.permute({0, 2, 3, 1});
}
at::Tensor maps_of(const at::Tensor& vectors) {
  return vectors.permute({0, 3, 1, 2});
}

// Patches of a side of `kernel` pixels. Its place in the chain, and the norm's, tell them apart.
class Patches : public Layer {
 public:
  Patches(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel, bool is_first)
      : is_first_(is_first) {
    if (!is_first) add_norm("0", in_channels);
    conv_ = register_module(is_first ? "0" : "1", std::make_shared<Conv2d>(ConvShape{
                                                      in_channels, out_channels, kernel, kernel,
                                                      /*groups=*/1, /*has_bias=*/true}));
    if (is_first) add_norm("1", out_channels);
  }

  at::Tensor forward(const at::Tensor& x) override {
    if (is_first_) return normalized(conv_->forward(x));
    return conv_->forward(normalized(x));
  }

  void count(KeptNumbers& kept) const override {
    if (!is_first_) kept.add(conv_->in_channels());
    kept.add(*conv_);
  }

 private:
  void add_norm(const char* name, std::int64_t channels) {
    norm_ = register_module(name, std::make_shared<LayerNorm>(channels));
  }
  at::Tensor normalized(const at::Tensor& x) const {
    return maps_of(norm_->forward(vectors_of(x)));
  }

  bool is_first_;
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<LayerNorm> norm_;
};

class ConvNeXtBlock : public Layer {
 public:
  ConvNeXtBlock(std::int64_t channels, double drop_rate) {
    scale_ = register_parameter("layer_scale", at::ones({channels, 1, 1}));
    const auto block = register_module("block", std::make_shared<torch::nn::Module>());
    conv_ = block->register_module(
        "0", std::make_shared<Conv2d>(
                 ConvShape{channels, channels, 7, /*stride=*/1, channels, /*has_bias=*/true}));
    norm_ = block->register_module("2", std::make_shared<LayerNorm>(channels));
    wide_ = block->register_module("3", std::make_shared<Linear>(channels, 4 * channels));
    narrow_ = block->register_module("5", std::make_shared<Linear>(4 * channels, channels));
    drop_ = register_module("stochastic_depth", std::make_shared<Drop>(drop_rate));
  }

  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor hidden =
        at::gelu(wide_->forward(norm_->forward(vectors_of(conv_->forward(x)))));
    return drop_->forward(maps_of(narrow_->forward(hidden)) * scale_).add_(x);
  }

  // Convolution, norm, both sides of GELU, and of the scale.
  void count(KeptNumbers& kept) const override { kept.add((2 + 4 + 4 + 1) * scale_.size(0)); }
  at::Tensor& scale() { return scale_; }

 private:
  at::Tensor scale_;
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> wide_, narrow_;
  std::shared_ptr<Drop> drop_;
};

class ConvNeXt : public ChainNetwork {
 public:
  ConvNeXt(const ConvNeXtShape& shape, int num_outputs) {
    int num_blocks = 0, number = 0;
    for (const int blocks : shape.num_blocks) num_blocks += blocks;
    std::int64_t channels = shape.first_channels;
    for (std::size_t i = 0; i < shape.num_blocks.size(); ++i) {
      const bool is_first = i == 0;
      if (!is_first) channels *= 2;
      chain().add(std::make_shared<Patches>(is_first ? 3 : channels / 2, channels, is_first ? 4 : 2,
                                            is_first));
      const auto blocks = std::make_shared<Chain>();
      for (int k = 0; k < shape.num_blocks[i]; ++k)
        blocks->add(std::make_shared<ConvNeXtBlock>(
            channels, shape.branch_drop * number++ / (num_blocks - 1)));
      chain().add(blocks);
    }
    norm_ = classifier().register_module("0", std::make_shared<LayerNorm>(channels));
    add_head("2", channels, num_outputs);
  }

  at::Tensor head_input(const at::Tensor& means) override { return norm_->forward(means); }
  // Each begins with patches.
  StageNames stages() const override { return {"features.", 2, 2}; }

  void initialize() override {
    const at::NoGradGuard no_grad;
    const auto set = [](auto& layer) {
      layer.weight().normal_(0, kDeviation);
      layer.bias().zero_();
    };
    for (const auto& module : modules()) {
      if (auto* conv = module->as<Conv2d>()) set(*conv);
      if (auto* linear = module->as<Linear>()) set(*linear);
      if (auto* block = module->as<ConvNeXtBlock>()) block->scale().fill_(kLayerScale);
    }
  }

 private:
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace

std::shared_ptr<Network> make_convnext(const ModelOptions& options, int num_outputs) {
  static const std::map<std::string_view, ConvNeXtShape> kShapes{
      {"convnext_tiny", {{3, 3, 9, 3}, 0.1}},
      {"convnext_small", {{3, 3, 27, 3}, 0.4}},
      {"convnext_base", {{3, 3, 27, 3}, 0.5, 128}},
  };
  return std::make_shared<ConvNeXt>(kShapes.at(options.model_name), num_outputs);
}

}  // namespace kiln
