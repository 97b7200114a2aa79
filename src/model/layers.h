// The layers that networks are made of, and the base class of a network. They use torchvision's
// parameter and buffer names. Unlike in LibTorch's own modules, the weights of convolutions and
// linear layers have no values on construction: see Network::initialize().
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/image_model.h"
#include "model/operators/fused_convolution.h"
#include "model/operators/fused_norm.h"
#include "model/operators/sync_batch_norm.h"

namespace kiln {

// Padding: padding_of(kernel).
struct ConvShape {
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t kernel;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  bool has_bias = false;
};

class Conv2d : public torch::nn::Module {
 public:
  explicit Conv2d(const ConvShape& shape);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor& weight() { return weight_; }
  at::Tensor& bias() { return shift_; }  // undefined if it has none
  std::int64_t in_channels() const { return weight_.size(1) * groups_; }
  std::int64_t out_channels() const { return weight_.size(0); }
  std::int64_t stride() const { return stride_; }
  // Inference only, for a layer without bias: from now on multiplies each output channel by `scale`
  // and adds `shift`; both are [out_channels].
  void fold_in(const at::Tensor& scale, const at::Tensor& shift);
  // Inference only, after folding: from now on uses fused operators where it can.
  void fuse();
  // The fused operators for `x`; null if they cannot be used.
  FusedConvolution* fused_for(const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  at::Tensor shift_;  // the bias, or what is folded in; may be undefined
  std::unique_ptr<FusedConvolution> fused_;
  std::int64_t stride_, padding_, groups_;
};

struct NormPlan {
  double epsilon = 1e-5, momentum = 0.1;
};

// Initially weight 1, bias 0, running mean 0, running variance 1.
class BatchNorm2d : public torch::nn::Module {
 public:
  explicit BatchNorm2d(std::int64_t channels, const NormPlan& plan = {});
  // Normalizes the output of `before`, which no other layer uses.
  explicit BatchNorm2d(std::shared_ptr<Conv2d> before, const NormPlan& plan = {});
  // In training mode uses the batch's statistics and updates the running ones. The network counts
  // the batches of all its layers at once, in their counter().
  at::Tensor forward(const at::Tensor& x);
  // The convolution before it, forward(), the addition of `added` if given, and the activation:
  // with an addition, ReLU or none. Fused, it overwrites what `added` returns.
  at::Tensor convolved(const at::Tensor& x, Activation activation,
                       const std::function<at::Tensor()>& added = {});
  at::Tensor convolved_relu(const at::Tensor& x, const std::function<at::Tensor()>& added = {}) {
    return convolved(x, Activation::kRelu, added);
  }
  // forward() of feature maps joined along their channels, and ReLU.
  at::Tensor joined_relu(const std::vector<at::Tensor>& maps);
  // The same, then means of 2x2 pixels, in one pass. Requires fuses().
  at::Tensor joined_relu_means(const std::vector<at::Tensor>& maps) const;
  at::Tensor& counter() { return num_batches_tracked_; }
  // The running mean and variance that forward() uses in eval mode (not copies), for a frozen
  // layer. Undefined tensors in training mode.
  std::array<at::Tensor, 2> fixed_statistics() const;
  // forward() without updating the running statistics, for recomputation in backward. `fixed`: the
  // fixed_statistics() of the original forward().
  static at::Tensor normalize_again(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, const std::array<at::Tensor, 2>& fixed);
  // From now on convolved() and joined_relu() take fused_norm() where they can.
  void fuse_activation() { fuses_activation_ = true; }
  // From now on training mode uses the statistics of all ranks' batches.
  void synchronize(BatchRanks ranks) { ranks_ = std::move(ranks); }
  // Inference only: folds this layer into the preceding convolution, if there is one.
  void fold();
  // Inference only: from now on joined_relu() takes one pass where it can.
  void fuse();
  bool fuses(const at::Tensor& x) const { return scale_.defined() && can_fuse(x); }
  at::Tensor& weight() { return weight_; }
  at::Tensor& bias() { return bias_; }

 private:
  std::array<at::Tensor, 2> scale_and_shift() const;  // in float64
  // forward(), the addition of `added` if given, and the activation.
  at::Tensor activated_norm(const at::Tensor& x, Activation activation,
                            const std::function<at::Tensor()>& added = {});

  std::shared_ptr<Conv2d> before_;
  NormPlan plan_;
  bool is_folded_ = false, fuses_activation_ = false;
  BatchRanks ranks_;  // without `sum`: uses this rank's batch only
  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
  at::Tensor scale_, shift_;  // what it computes, if fused
};

class Linear : public torch::nn::Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features);
  // Draws weight and bias uniformly from +-1/sqrt(in_features), LibTorch's default.
  void initialize();
  at::Tensor forward(const at::Tensor& x) const;
  // Inference only: from now on takes vectors, [N, in_features], and uses a fused operator where it
  // can.
  void fuse();
  const at::Tensor& weight() const { return weight_; }  // [out_features, in_features]
  at::Tensor& bias() { return bias_; }

 private:
  at::Tensor weight_, bias_;
  std::unique_ptr<FusedConvolution> fused_;
};

// The largest of 3x3 pixels, with a stride of 2 and padded by 1.
class MaxPool : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x);
  // Inference only: from now on uses a fused operator where it can.
  void fuse() { fused_.emplace(); }

 private:
  std::optional<FusedMaxPool> fused_;
};

// Normalizes each vector of the last dimension. Initially weight 1, bias 0.
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(std::int64_t channels, double epsilon = 1e-6);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  double epsilon_;
  at::Tensor weight_, bias_;
};

// In training drops numbers of each image with probability `rate` and divides the others by
// 1 - rate; in eval mode does nothing. `width` of each image's numbers are kept or dropped
// independently. 1: the output of a residual branch as a whole (stochastic depth, Huang et al.,
// arXiv:1603.09382). The size of a vector: dropout, Srivastava et al., JMLR 15, 2014.
class Drop : public torch::nn::Module {
 public:
  explicit Drop(double rate, std::int64_t width = 1) : rate_(rate), width_(width) {}
  at::Tensor forward(const at::Tensor& x) const;  // [N, …]
  double rate() const { return rate_; }
  // Numbers that an image's mask has in the present mode.
  std::int64_t width() const { return is_training() && rate_ > 0 ? width_ : 0; }
  // What the next forward() keeps: [N, width()], 1 or 0.
  void set_mask(at::Tensor mask) { mask_ = std::move(mask); }
  const at::Tensor& mask() const { return mask_; }

 private:
  double rate_;
  std::int64_t width_;
  at::Tensor mask_;
};

// Counts what backward needs, layer by layer.
struct KeptNumbers : Kept {
  double area = 1;  // of the present feature map, as a share of the image's

  void add(std::int64_t channels) { numbers += static_cast<double>(channels) * area; }
  // The result of a max pooling with stride 2, and which values it took.
  void add_pooled(std::int64_t channels);
  // The results of a convolution and of the ReLU after its normalization.
  void add(const Conv2d& conv);
};

// Of feature maps.
class Layer : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  virtual void count(KeptNumbers& kept) const = 0;
};

// A convolution, its BatchNorm and activation: torchvision's Conv2dNormActivation.
class ConvNorm : public Layer {
 public:
  ConvNorm(const ConvShape& shape, Activation activation, const NormPlan& norm);
  at::Tensor forward(const at::Tensor& x) override { return norm_->convolved(x, activation_); }
  void count(KeptNumbers& kept) const override;

 private:
  Activation activation_;
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
};

// Layers one after another, named "0", "1", …
class Chain : public Layer {
 public:
  void add(std::shared_ptr<Layer> layer) {
    layers_.push_back(register_module(std::to_string(layers_.size()), std::move(layer)));
  }
  at::Tensor forward(const at::Tensor& x) override;
  void count(KeptNumbers& kept) const override;

 private:
  std::vector<std::shared_ptr<Layer>> layers_;
};

// For class maps of a network whose pooled() takes no means: activations of its patches and those
// of tokens before them, [N, T, C], with a graph from them to `features`, pooled().
struct Watched {
  at::Tensor activations, features;
  std::int64_t height;  // of the image in patches, which are the last tokens
};

// How the names of a network's layers begin and number its stages: (number + offset) / in_stage.
struct StageNames {
  std::string prefix;
  int offset = 0, in_stage = 1;

  // The stage of a parameter or module; that of the one before it, `stage`, unless its name says
  // so.
  int of(const std::string& name, int stage) const;
};

// Convolutions or attention, one vector for the whole image, and at last a linear layer.
class Network : public torch::nn::Module {
 public:
  // [N, 3, H, W] -> feature maps before pooling, [N, C, h, w], or what else pooled() takes.
  virtual at::Tensor features(const at::Tensor& images) = 0;
  // features() -> [N, C]: their means.
  virtual at::Tensor pooled(const at::Tensor& features) { return features.mean({2, 3}); }
  // pooled() -> the input of the head, [N, D]. Overridden by a network with layers between the two,
  // which a fitted head and a frozen backbone leave as they are.
  virtual at::Tensor head_input(const at::Tensor& means) { return means; }
  // Overridden by a network with another pooled().
  virtual std::optional<Watched> watched(const at::Tensor& /*images*/) { return std::nullopt; }
  // [N, D] -> logits. Its name in the state dict is the network's own.
  virtual Linear& head() = 0;
  // Gives all layers their initial values, drawn from LibTorch's default generator.
  virtual void initialize() = 0;
  virtual Kept kept() const = 0;
  virtual StageNames stages() const = 0;
};

// A chain of layers, "features", and "classifier" with what follows the means, the head last. A
// derived class fills both.
class ChainNetwork : public Network {
 public:
  at::Tensor features(const at::Tensor& images) override { return features_->forward(images); }
  Linear& head() override { return *head_; }
  Kept kept() const override;
  StageNames stages() const override { return {"features."}; }

 protected:
  ChainNetwork();
  Chain& chain() { return *features_; }
  torch::nn::Module& classifier() { return *classifier_; }
  void add_head(const char* name, std::int64_t in_features, std::int64_t out_features);

 private:
  std::shared_ptr<Chain> features_;
  std::shared_ptr<torch::nn::Module> classifier_;
  std::shared_ptr<Linear> head_;
};

enum class Fan { kIn, kOut };

// Initializes every convolution of `network`, in module order, from a normal distribution with
// variance 2 / fan, and its bias with 0. He et al., "Delving Deep into Rectifiers", 2015,
// arXiv:1502.01852.
void init_convolutions(Network& network, Fan fan);

}  // namespace kiln
