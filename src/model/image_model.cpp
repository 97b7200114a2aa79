#include "model/image_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>
#include <variant>

#include "model/catalogue.h"
#include "model/layers.h"
#include "model/networks.h"

namespace kiln {
namespace {

constexpr int kPretrainedClasses = 1000;

std::shared_ptr<Network> make_network(const ResNetShape& shape, const ModelOptions& options,
                                      int num_classes) {
  return make_resnet(shape, num_classes, options.zero_init_residual);
}

std::shared_ptr<Network> make_network(const DenseNetShape& shape, const ModelOptions& options,
                                      int num_classes) {
  return make_densenet(shape, num_classes, options.memory_efficient);
}

// The state dict's order: a module's parameters, its buffers, then its children.
void list_state(const torch::nn::Module& module, const std::string& prefix,
                std::vector<NamedTensor>& state) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    state.push_back({prefix + item.key(), item.value()});
  for (const auto& item : module.named_buffers(/*recurse=*/false))
    state.push_back({prefix + item.key(), item.value()});
  for (const auto& child : module.named_children())
    list_state(*child.value(), prefix + child.key() + ".", state);
}

class NetworkModel : public ImageModel {
 public:
  explicit NetworkModel(const ModelOptions& options) {
    root_ = std::make_shared<torch::nn::Module>();
    const int head = options.with_output_layer ? kPretrainedClasses : options.num_classes;
    network_ = root_->register_module(
        "model", std::visit([&](const auto& shape) { return make_network(shape, options, head); },
                            known_network(options.model_name).shape));
    for (const auto& module : network_->modules())
      if (auto norm = std::dynamic_pointer_cast<BatchNorm2d>(module)) norms_.push_back(norm);
    if (options.with_output_layer)
      out_linear_ = root_->register_module(
          "out_linear_model", std::make_shared<Linear>(kPretrainedClasses, options.num_classes));
  }

  at::Tensor forward(const at::Tensor& images) override {
    const at::Tensor logits = network_->classifier().forward(pooled_features(images));
    return out_linear_ ? out_linear_->forward(logits) : logits;
  }

  at::Tensor pooled_features(const at::Tensor& images) override {
    count_batch();
    const c10::AutoGradMode grad(at::GradMode::is_enabled() && frozen_ != Freeze::kBackbone);
    return network_->features(images).mean({2, 3});
  }

  at::Tensor class_maps(const at::Tensor& images, const std::vector<int>& classes) override {
    const at::NoGradGuard no_grad;
    const at::Tensor maps = (network_->features(images) * weights_of(classes)).sum(1).relu_();
    const at::Tensor largest = maps.amax({1, 2}, /*keepdim=*/true);
    return maps / largest.masked_fill(largest == 0, 1);
  }

  void train(bool on) override {
    root_->train(on);
    if (frozen_ == Freeze::kNone) return;
    for (const auto& norm : norms_) norm->train(false);
  }

  void freeze(Freeze what) override {
    frozen_ = what;
    for (const at::Tensor& parameter : parameters()) parameter.set_requires_grad(true);
    if (what == Freeze::kBackbone) {
      for (const at::Tensor& parameter : parameters()) parameter.set_requires_grad(false);
      for (const NamedTensor& item : head()) item.tensor.set_requires_grad(true);
    } else if (what == Freeze::kNorm) {
      for (const auto& norm : norms_)
        for (const at::Tensor& parameter : norm->parameters(/*recurse=*/false))
          parameter.set_requires_grad(false);
    }
  }

  std::vector<at::Tensor> parameters() const override { return root_->parameters(); }

  std::vector<NamedTensor> named_parameters() const override {
    std::vector<NamedTensor> parameters;
    for (const auto& item : root_->named_parameters())
      parameters.push_back({item.key(), item.value()});
    return parameters;
  }

  std::vector<NamedTensor> head() const override {
    const std::vector<NamedTensor> all = named_parameters();
    // The head is registered last.
    return {all.end() - (out_linear_ ? 4 : 2), all.end()};
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> state;
    list_state(*root_, "", state);
    return state;
  }

  void prepare(const at::Device& device) override {
    for (const NamedTensor& item : state()) {
      const bool is_image_kernel = item.tensor.dim() == 4;
      const auto format =
          is_image_kernel ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      replace(item.tensor,
              item.tensor.detach().to(item.tensor.options().device(device), /*non_blocking=*/false,
                                      /*copy=*/false, format));
    }
  }

  void to_float64() override {
    for (const NamedTensor& item : state())
      if (item.tensor.is_floating_point())
        replace(item.tensor, item.tensor.detach().to(at::kDouble));
  }

  void synchronize_batch_norm(const BatchRanks& ranks) override {
    for (const auto& norm : norms_) norm->synchronize(ranks);
  }

  void fold_batch_norm() override {
    train(false);
    for (const auto& norm : norms_) norm->fold();
  }

 private:
  // The weights of the last feature maps for these classes, [classes, C, 1, 1]. Two linear layers
  // are multiplied into one.
  at::Tensor weights_of(const std::vector<int>& classes) const {
    const at::Tensor& first = network_->classifier().weight();
    const std::vector<std::int64_t> ids(classes.begin(), classes.end());
    const at::Tensor rows = at::tensor(ids, at::TensorOptions(first.device()).dtype(at::kLong));
    const at::Tensor weights = out_linear_ ? out_linear_->weight().index_select(0, rows).mm(first)
                                           : first.index_select(0, rows);
    return weights.view({weights.size(0), weights.size(1), 1, 1});
  }

  // One operator for all layers, which on a GPU costs the host as much as one layer's would.
  void count_batch() {
    std::vector<at::Tensor> counters;
    for (const auto& norm : norms_)
      if (norm->is_training()) counters.push_back(norm->counter());
    if (!counters.empty()) at::_foreach_add_(counters, 1);
  }

  // All references to the tensor see the new data.
  static void replace(const at::Tensor& tensor, const at::Tensor& data) { tensor.set_data(data); }

  std::shared_ptr<torch::nn::Module> root_;
  std::shared_ptr<Network> network_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;  // of the network
  std::shared_ptr<Linear> out_linear_;
  Freeze frozen_ = Freeze::kNone;
};

}  // namespace

std::vector<NamedTensor> ImageModel::trained_parameters() const {
  std::vector<NamedTensor> trained = named_parameters();
  std::erase_if(trained, [](const NamedTensor& item) { return !item.tensor.requires_grad(); });
  return trained;
}

std::vector<NamedTensor> ImageModel::buffers() const {
  std::set<const c10::TensorImpl*> parameters_of_it;
  for (const at::Tensor& parameter : parameters())
    parameters_of_it.insert(parameter.unsafeGetTensorImpl());
  std::vector<NamedTensor> others = state();
  std::erase_if(others, [&](const NamedTensor& item) {
    return parameters_of_it.contains(item.tensor.unsafeGetTensorImpl());
  });
  return others;
}

std::unique_ptr<ImageModel> make_image_model(const ModelOptions& options) {
  return std::make_unique<NetworkModel>(options);
}

}  // namespace kiln
