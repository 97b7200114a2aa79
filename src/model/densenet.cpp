#include "model/networks.h"

#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/image_model.h"
#include "model/operators/autocast.h"
#include "model/operators/small_map_convolution.h"

namespace kiln {
namespace {

using Module = torch::nn::Module;

constexpr std::int64_t kBottleneckFactor = 4;

// concat -> norm1 -> relu -> conv1, which saves only its inputs for backward and recomputes the
// rest there. The recomputation does not update the running statistics a second time. It restores
// the autocast state of forward, which the threads of backward do not inherit. `tensors`: norm
// weight, norm bias, conv weight, then the features.
class RecomputedBottleneck : public torch::autograd::Function<RecomputedBottleneck> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, BatchNorm2d* norm,
                            const Conv2d* conv, at::TensorList tensors) {
    context->save_for_backward(tensors.vec());
    context->saved_data["type"] = Autocast::type_on(tensors[0].device().type());
    const auto [mean, variance] = norm->fixed_statistics();
    context->saved_data["mean"] = mean;
    context->saved_data["variance"] = variance;
    const at::Tensor joined = at::cat(tensors.slice(kNumWeights), 1);
    return conv->forward(norm->forward(joined).relu_());
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& output_gradients) {
    std::vector<at::Tensor> tensors, wanted;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      tensors.push_back(saved.detach().requires_grad_(saved.requires_grad()));
      if (saved.requires_grad()) wanted.push_back(tensors.back());
    }
    at::Tensor output;
    {
      const at::AutoGradMode with_graph(true);
      const Autocast as_in_forward(tensors[0].device().type(),
                                   context->saved_data["type"].toScalarType());
      const at::Tensor joined = at::cat(at::TensorList(tensors).slice(kNumWeights), 1);
      const at::Tensor normal = BatchNorm2d::normalize_again(
          joined, tensors[0], tensors[1],
          {context->saved_data["mean"].toTensor(), context->saved_data["variance"].toTensor()});
      normal.relu_();
      output = is_small_map(normal, tensors[2], {})
                   ? small_map_convolution(normal, tensors[2], {}, {})
                   : at::conv2d(normal, tensors[2]);
    }
    const auto gradients = torch::autograd::grad({output}, wanted, output_gradients);
    torch::autograd::variable_list result(kNumPointers);
    std::size_t next = 0;
    for (const at::Tensor& tensor : tensors)
      result.push_back(tensor.requires_grad() ? gradients[next++] : at::Tensor());
    return result;
  }

 private:
  static constexpr std::size_t kNumWeights = 3;
  static constexpr std::size_t kNumPointers = 2;  // arguments of forward that have no gradient
};

class DenseLayer : public torch::nn::Module {
 public:
  DenseLayer(std::int64_t in_channels, std::int64_t growth_rate, bool memory_efficient)
      : memory_efficient_(memory_efficient) {
    const std::int64_t width = kBottleneckFactor * growth_rate;
    norm1_ = register_module("norm1", std::make_shared<BatchNorm2d>(in_channels));
    conv1_ = register_module("conv1", std::make_shared<Conv2d>(ConvShape{in_channels, width, 1}));
    norm2_ = register_module("norm2", std::make_shared<BatchNorm2d>(conv1_));
    conv2_ = register_module("conv2", std::make_shared<Conv2d>(ConvShape{width, growth_rate, 3}));
  }

  at::Tensor forward(const std::vector<at::Tensor>& features) {
    if (memory_efficient_ && is_training() && at::GradMode::is_enabled())
      return conv2_->forward(norm2_->forward(recomputed_bottleneck(features)).relu_());
    return conv2_->forward(norm2_->convolved_relu(norm1_->joined_relu(features)));
  }

  void count(KeptNumbers& kept) const {
    if (!memory_efficient_) kept.add(2 * conv1_->in_channels());
    kept.add(*conv1_);
    kept.add(conv2_->out_channels());
  }

 private:
  at::Tensor recomputed_bottleneck(const std::vector<at::Tensor>& features) {
    std::vector<at::Tensor> tensors{norm1_->weight(), norm1_->bias(), conv1_->weight()};
    tensors.insert(tensors.end(), features.begin(), features.end());
    const Conv2d* conv = conv1_.get();
    // Must be a TensorList: apply() does not look for variables in a std::vector and would build no
    // graph.
    return RecomputedBottleneck::apply(norm1_.get(), conv, at::TensorList(tensors));
  }

  bool memory_efficient_;
  std::shared_ptr<BatchNorm2d> norm1_, norm2_;
  std::shared_ptr<Conv2d> conv1_, conv2_;
};

// Halves the channels and the resolution.
class Transition : public torch::nn::Module {
 public:
  explicit Transition(std::int64_t channels) {
    norm_ = register_module("norm", std::make_shared<BatchNorm2d>(channels));
    conv_ = register_module("conv", std::make_shared<Conv2d>(ConvShape{channels, channels / 2, 1}));
  }
  // The means of a convolution of single pixels are the convolution of the means, which is a
  // quarter of the work.
  at::Tensor forward(const std::vector<at::Tensor>& features) {
    if (norm_->fuses(features.front())) return conv_->forward(norm_->joined_relu_means(features));
    return at::avg_pool2d(conv_->forward(norm_->joined_relu(features)), 2, 2);
  }

  void count(KeptNumbers& kept) const {
    kept.add(2 * conv_->in_channels());
    kept.area /= 4;
    kept.add(conv_->out_channels());
  }

 private:
  std::shared_ptr<BatchNorm2d> norm_;
  std::shared_ptr<Conv2d> conv_;
};

class DenseNet : public Network {
 public:
  DenseNet(const DenseNetShape& shape, bool memory_efficient, int num_outputs)
      : channels_(shape.num_init_features) {
    const auto parent = register_module("features", std::make_shared<Module>());
    conv0_ =
        parent->register_module("conv0", std::make_shared<Conv2d>(ConvShape{3, channels_, 7, 2}));
    norm0_ = parent->register_module("norm0", std::make_shared<BatchNorm2d>(conv0_));
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      const auto block = parent->register_module("denseblock" + number, std::make_shared<Module>());
      for (int k = 0; k < shape.num_layers[i]; ++k)
        blocks_[i].push_back(block->register_module(
            "denselayer" + std::to_string(k + 1),
            std::make_shared<DenseLayer>(channels_ + k * shape.growth_rate, shape.growth_rate,
                                         memory_efficient)));
      channels_ += shape.num_layers[i] * shape.growth_rate;
      if (i == transitions_.size()) continue;
      transitions_[i] =
          parent->register_module("transition" + number, std::make_shared<Transition>(channels_));
      channels_ /= 2;
    }
    pool_ = parent->register_module("pool0", std::make_shared<MaxPool>());
    norm5_ = parent->register_module("norm5", std::make_shared<BatchNorm2d>(channels_));
    classifier_ = register_module("classifier", std::make_shared<Linear>(channels_, num_outputs));
  }

  // Each layer sees the block's input and the output of all layers before it, as does what follows.
  at::Tensor features(const at::Tensor& images) override {
    std::vector<at::Tensor> maps{pool_->forward(norm0_->convolved_relu(images))};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (const auto& layer : blocks_[i]) maps.push_back(layer->forward(maps));
      if (i < transitions_.size()) maps = {transitions_[i]->forward(maps)};
    }
    return norm5_->joined_relu(maps);
  }
  Linear& head() override { return *classifier_; }
  StageNames stages() const override { return {"features.denseblock"}; }

  void initialize() override {
    classifier_->initialize();
    const at::NoGradGuard no_grad;
    classifier_->bias().zero_();
    init_convolutions(*this, Fan::kIn);
  }

  Kept kept() const override {
    KeptNumbers kept;
    kept.add(*conv0_);
    kept.add_pooled(conv0_->out_channels());
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (const auto& layer : blocks_[i]) layer->count(kept);
      if (i < transitions_.size()) transitions_[i]->count(kept);
    }
    kept.add(2 * channels_);
    return kept;
  }

 private:
  std::int64_t channels_;
  std::shared_ptr<Conv2d> conv0_;
  std::shared_ptr<MaxPool> pool_;
  std::shared_ptr<BatchNorm2d> norm0_, norm5_;
  std::array<std::vector<std::shared_ptr<DenseLayer>>, 4> blocks_;
  std::array<std::shared_ptr<Transition>, 3> transitions_;
  std::shared_ptr<Linear> classifier_;
};

}  // namespace

std::shared_ptr<Network> make_densenet(const ModelOptions& options, int num_outputs) {
  static const std::map<std::string_view, DenseNetShape> kShapes{
      {"densenet121", {32, {6, 12, 24, 16}, 64}},
      {"densenet161", {48, {6, 12, 36, 24}, 96}},
      {"densenet169", {32, {6, 12, 32, 32}, 64}},
      {"densenet201", {32, {6, 12, 48, 32}, 64}},
  };
  return make_densenet(kShapes.at(options.model_name), options.memory_efficient, num_outputs);
}

std::shared_ptr<Network> make_densenet(const DenseNetShape& shape, bool memory_efficient,
                                       int num_outputs) {
  return std::make_shared<DenseNet>(shape, memory_efficient, num_outputs);
}

}  // namespace kiln
