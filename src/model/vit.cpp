#include "model/networks.h"
#include "model/positions.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/TracerMode.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
namespace {

constexpr int kDepth = 12;
constexpr double kInitialDeviation = 0.02;  // of initial weights and positions

struct ViTShape {
  std::int64_t width, heads, patch;
  std::int64_t grid;       // of the stored positions, in patches
  double layer_scale = 0;  // initially; 0: none
  bool is_torchvision = false;
};

using Module = torch::nn::Module;

std::shared_ptr<Module> add_module(Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<Module>());
}

void set_uniform(const at::Tensor& weight, double bound) {
  weight.uniform_(-bound, bound);
}

// Glorot and Bengio, AISTATS 2010.
void set_xavier(const at::Tensor& weight) {
  set_uniform(weight, std::sqrt(6.0 / static_cast<double>(weight.size(0) + weight.size(1))));
}

// Attention, then two linear layers, each after a norm and added to its input.
class EncoderBlock : public Module {
 public:
  explicit EncoderBlock(const ViTShape& shape) : shape_(shape) {
    const bool is_tv = shape.is_torchvision;
    const std::int64_t width = shape.width;
    norm1_ = add_norm(is_tv ? "ln_1" : "norm1");
    const auto attention = add_module(*this, is_tv ? "self_attention" : "attn");
    const auto qkv = is_tv ? attention : add_module(*attention, "qkv");
    const std::string prefix = is_tv ? "in_proj_" : "";
    qkv_weight_ = qkv->register_parameter(prefix + "weight", at::empty({3 * width, width}));
    qkv_bias_ = qkv->register_parameter(prefix + "bias", at::empty({3 * width}));
    out_ = attention->register_module(is_tv ? "out_proj" : "proj",
                                      std::make_shared<Linear>(width, width));
    scale1_ = add_scale("ls1");
    norm2_ = add_norm(is_tv ? "ln_2" : "norm2");
    const auto mlp = add_module(*this, "mlp");
    wide_ = mlp->register_module(is_tv ? "0" : "fc1", std::make_shared<Linear>(width, 4 * width));
    narrow_ = mlp->register_module(is_tv ? "3" : "fc2", std::make_shared<Linear>(4 * width, width));
    scale2_ = add_scale("ls2");
  }

  at::Tensor forward(const at::Tensor& x) const { return forward(x, normed(x)); }
  at::Tensor normed(const at::Tensor& x) const { return norm1_->forward(x); }
  // `normed` is that of x.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& normed) const {
    const at::Tensor y = x + scaled(attention(normed), scale1_);
    const at::Tensor hidden = at::gelu(wide_->forward(norm2_->forward(y)));
    return y + scaled(narrow_->forward(hidden), scale2_);
  }

  void initialize() {
    for (const at::Tensor& scale : {scale1_, scale2_})
      if (scale.defined()) scale.fill_(shape_.layer_scale);
    for (Linear* linear : {out_.get(), wide_.get(), narrow_.get()}) {
      linear->weight().normal_(0, kInitialDeviation);
      linear->bias().zero_();
    }
    qkv_weight_.normal_(0, kInitialDeviation);
    qkv_bias_.zero_();
    if (!shape_.is_torchvision) return;
    set_xavier(qkv_weight_);
    set_uniform(out_->weight(), 1 / std::sqrt(static_cast<double>(shape_.width)));
    for (Linear* linear : {wide_.get(), narrow_.get()}) {
      set_xavier(linear->weight());
      linear->bias().normal_(0, 1e-6);
    }
  }

 private:
  std::shared_ptr<LayerNorm> add_norm(const char* name) {
    return register_module(name, std::make_shared<LayerNorm>(shape_.width));
  }
  at::Tensor add_scale(const char* name) {
    if (shape_.layer_scale == 0) return {};
    return add_module(*this, name)->register_parameter("gamma", at::ones({shape_.width}));
  }
  static at::Tensor scaled(const at::Tensor& branch, const at::Tensor& scale) {
    return scale.defined() ? branch * scale : branch;
  }

  // No call names the number of images, which a trace would keep.
  at::Tensor attention(const at::Tensor& x) const {
    const at::Tensor qkv = at::linear(x, qkv_weight_, qkv_bias_)
                               .unflatten(2, {3, shape_.heads, shape_.width / shape_.heads})
                               .permute({2, 0, 3, 1, 4});
    const at::Tensor mixed =
        at::scaled_dot_product_attention(qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2));
    return out_->forward(mixed.permute({0, 2, 1, 3}).flatten(2));
  }

  const ViTShape shape_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  at::Tensor qkv_weight_, qkv_bias_, scale1_, scale2_;
  std::shared_ptr<Linear> out_, wide_, narrow_;
};

class ViT : public Network {
 public:
  ViT(const ViTShape& shape, int num_outputs) : shape_(shape) {
    const bool is_tv = shape.is_torchvision;
    class_token_ =
        register_parameter(is_tv ? "class_token" : "cls_token", at::zeros({1, 1, shape.width}));
    const at::Tensor positions = at::empty({1, shape.grid * shape.grid + 1, shape.width});
    if (!is_tv) positions_ = register_parameter("pos_embed", positions);
    patches_ = (is_tv ? *this : *add_module(*this, "patch_embed"))
                   .register_module(is_tv ? "conv_proj" : "proj",
                                    std::make_shared<Conv2d>(ConvShape{3, shape.width, shape.patch,
                                                                       shape.patch, /*groups=*/1,
                                                                       /*has_bias=*/true}));
    Module& body = is_tv ? *add_module(*this, "encoder") : *this;
    if (is_tv) positions_ = body.register_parameter("pos_embedding", positions);
    const auto layers = add_module(body, is_tv ? "layers" : "blocks");
    for (int i = 0; i < kDepth; ++i)
      blocks_.push_back(layers->register_module((is_tv ? "encoder_layer_" : "") + std::to_string(i),
                                                std::make_shared<EncoderBlock>(shape)));
    norm_ = body.register_module(is_tv ? "ln" : "norm", std::make_shared<LayerNorm>(shape.width));
    head_ = (is_tv ? *add_module(*this, "heads") : *this)
                .register_module("head", std::make_shared<Linear>(shape.width, num_outputs));
  }

  // The tokens of each image, first that of its class: [N, 1 + h w, width].
  at::Tensor features(const at::Tensor& images) override {
    return blocks_.back()->forward(entering_last(images));
  }
  at::Tensor pooled(const at::Tensor& tokens) override {
    return norm_->forward(tokens.select(1, 0));
  }
  Linear& head() override { return *head_; }
  StageNames stages() const override {
    return {shape_.is_torchvision ? "encoder.layers.encoder_layer_" : "blocks.", 1};
  }

  // Of the last block whose patches still count, what its attention sees.
  std::optional<Watched> watched(const at::Tensor& images) override {
    const at::Tensor x = entering_last(images);
    at::Tensor leaf = blocks_.back()->normed(x).detach().requires_grad_();
    const at::AutoGradMode with_graph(true);
    at::Tensor features = pooled(blocks_.back()->forward(x, leaf));
    return Watched{leaf, std::move(features), images.size(2) / shape_.patch};
  }

  void initialize() override {
    const at::NoGradGuard no_grad;
    positions_.normal_(0, kInitialDeviation);
    head_->bias().zero_();
    for (const auto& block : blocks_) block->initialize();
    const double fan = static_cast<double>(3 * shape_.patch * shape_.patch);
    if (shape_.is_torchvision) {
      patches_->weight().normal_(0, std::sqrt(1 / fan));
      patches_->bias().zero_();
      head_->weight().zero_();
      return;
    }
    class_token_.normal_(0, 1e-6);
    set_uniform(patches_->weight(), 1 / std::sqrt(fan));
    set_uniform(patches_->bias(), 1 / std::sqrt(fan));
    head_->weight().normal_(0, kInitialDeviation);
  }

  // In each block: the inputs of its norms, of its four linear layers and of GELU, and q, k and v.
  Kept kept() const override {
    KeptNumbers kept;
    kept.area = 1 / static_cast<double>(shape_.patch * shape_.patch);
    kept.add(shape_.width * (2 + 1 + 1 + 1 + 4 + 4 + 3) * kDepth);
    return kept;
  }

 private:
  at::Tensor entering_last(const at::Tensor& images) const {
    const at::Tensor patches = patches_->forward(images);
    // The class token's place is first: its row of the table has the token itself.
    const at::Tensor placed =
        at::constant_pad_nd(patches.flatten(2).permute({0, 2, 1}), {0, 0, 1, 0});
    at::Tensor x = placed + table(patches.size(2), patches.size(3));
    for (std::size_t i = 0; i + 1 < blocks_.size(); ++i) x = blocks_[i]->forward(x);
    return x;
  }

  // [1, 1 + height width, width]: the positions for this grid, the first
  // with the class token. A trace takes it as weights.
  at::Tensor table(std::int64_t height, std::int64_t width) const {
    const at::tracer::impl::NoTracerDispatchMode untraced;
    const at::Tensor positions = resampled_positions(positions_, height, width);
    return at::cat(
        {positions.narrow(1, 0, 1) + class_token_, positions.narrow(1, 1, positions.size(1) - 1)},
        1);
  }

  const ViTShape shape_;
  at::Tensor class_token_, positions_;
  std::shared_ptr<Conv2d> patches_;
  std::vector<std::shared_ptr<EncoderBlock>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

std::int64_t grid_side(const at::Tensor& positions) {
  const auto side = std::llround(std::sqrt(static_cast<double>(positions.size(1) - 1)));
  return side * side + 1 == positions.size(1) ? side : 0;
}

at::Tensor resampled_by_products(const at::Tensor& maps, std::int64_t height, std::int64_t width) {
  // [to, from]: what becomes of each place alone.
  const auto filter = [&](std::int64_t from, std::int64_t to) {
    const at::Tensor places = at::eye(from).view({1, 1, from, from});
    return at::_upsample_bicubic2d_aa(places, {to, from}, /*align_corners=*/false)
        .view({to, from})
        .to(maps.device());
  };
  const at::Tensor rows = at::matmul(filter(maps.size(2), height), maps);
  return at::matmul(rows, filter(maps.size(3), width).t());
}

at::Tensor resampled_positions(const at::Tensor& positions, std::int64_t height,
                               std::int64_t width) {
  const std::int64_t side = grid_side(positions);
  if (height == side && width == side) return positions;
  const at::Tensor maps = positions.narrow(1, 1, side * side)
                              .unflatten(1, {side, side})
                              .permute({0, 3, 1, 2})
                              .to(at::kFloat);
  const bool must_repeat = maps.is_cuda() && at::globalContext().deterministicAlgorithms();
  const at::Tensor resampled =
      must_repeat ? resampled_by_products(maps, height, width)
                  : at::_upsample_bicubic2d_aa(maps, {height, width}, /*align_corners=*/false);
  return at::cat({positions.narrow(1, 0, 1),
                  resampled.flatten(2).permute({0, 2, 1}).to(positions.scalar_type())},
                 1);
}

std::shared_ptr<Network> make_vit(const ModelOptions& options, int num_outputs) {
  static const std::map<std::string_view, ViTShape> kShapes{
      {"vit_s_16", {384, 6, 16, 14}},
      {"vit_b_16", {768, 12, 16, 14, 0, true}},
      {"vit_s_14", {384, 6, 14, 37, 1e-5}},
      {"vit_b_14", {768, 12, 14, 37, 1e-5}},
  };
  return std::make_shared<ViT>(kShapes.at(options.model_name), num_outputs);
}

}  // namespace kiln
