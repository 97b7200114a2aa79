#include "model/image_model.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "model/layers.h"
#include "model/networks.h"
#include "model/operators/autocast.h"

namespace kiln {
namespace {

constexpr int kPretrainedClasses = 1000;
constexpr std::string_view kPrefix = "model.";
constexpr std::size_t kImagesTimesBytes = 32;  // images at a time, times the bytes of a number
constexpr double kFarBeyond = 1e12;            // normalized pixels, which are below 10
constexpr std::int64_t kSide = 64;             // of the image that tries it

std::shared_ptr<Network> make_network(const ModelOptions& options) {
  const std::string_view family = known_network(options.model_name).family_name;
  const auto* const row = std::ranges::find(kFamilyMakers, family, &FamilyMaker::family);
  return row->make(options, options.with_output_layer ? kPretrainedClasses : options.num_classes);
}

// The state dict's order: a module's parameters, its buffers, then its children.
void list_state(const torch::nn::Module& module, const std::string& prefix,
                std::vector<NamedTensor>& state) {
  for (const auto& own :
       {module.named_parameters(/*recurse=*/false), module.named_buffers(/*recurse=*/false)})
    for (const auto& item : own) state.push_back({prefix + item.key(), item.value()});
  for (const auto& child : module.named_children())
    list_state(*child.value(), prefix + child.key() + ".", state);
}

class NetworkModel : public ImageModel {
 public:
  NetworkModel(std::shared_ptr<Network> network, const ModelOptions& options) {
    root_ = std::make_shared<torch::nn::Module>();
    network_ = root_->register_module("model", std::move(network));
    for (const auto& module : network_->modules())
      if (auto norm = std::dynamic_pointer_cast<BatchNorm2d>(module)) {
        norms_.push_back(norm);
      } else if (auto drop = std::dynamic_pointer_cast<Drop>(module)) {
        drops_.push_back(drop);
      }
    if (options.with_output_layer)
      out_linear_ = root_->register_module(
          "out_linear_model", std::make_shared<Linear>(kPretrainedClasses, options.num_classes));
    if (!options.is_initialized) return;
    network_->initialize();
    if (out_linear_) out_linear_->initialize();
  }

  at::Tensor pooled_features(const at::Tensor& images) override {
    count_batch();
    draw_masks(images);
    const c10::AutoGradMode grad(at::GradMode::is_enabled() && frozen_ != Freeze::kBackbone);
    return network_->head_input(means_of(images));
  }

  at::Tensor logits_of(const at::Tensor& features) override {
    const at::Tensor logits = network_->head().forward(features);
    return out_linear_ ? out_linear_->forward(logits) : logits;
  }

  at::Tensor class_maps(const at::Tensor& images, const std::vector<int>& classes) override {
    const at::NoGradGuard no_grad;
    const at::Tensor maps = evidence(images, classes).relu_();
    const at::Tensor largest = maps.amax({1, 2}, /*keepdim=*/true);
    return maps / largest.masked_fill(largest == 0, 1);
  }

  void train(bool on) override {
    root_->train(on);
    for (const auto& module : still_) module->train(false);
  }

  void key_images(std::vector<std::uint64_t> keys) override { keys_ = std::move(keys); }

  void freeze(Freeze what) override {
    const std::vector<at::Tensor> all = parameters();
    const std::vector<int> of_all = stages();
    const int asked = static_cast<int>(what), count = of_all.back() - 1;
    if (asked > count)
      throw Error(ErrorCode::kUserError,
                  formatted("--freeze is stage%d, but this network has stage1 to stage%d: use one "
                            "of these.",
                            asked, count));
    frozen_ = what;
    still_.clear();
    const int last = what == Freeze::kBackbone ? count : asked > 0 ? asked : -1;
    for (std::size_t i = 0; i < all.size(); ++i) all[i].set_requires_grad(of_all[i] > last);
    int stage = 0;
    for (const auto& item : network_->named_modules()) {
      stage = network_->stages().of(item.key(), stage);
      const auto& module = item.value();
      const bool is_norm = module->as<BatchNorm2d>() != nullptr;
      const bool is_still = stage <= last || (what == Freeze::kNorm &&
                                              (is_norm || module->as<LayerNorm>() != nullptr));
      if (is_still && (is_norm || module->as<Drop>() != nullptr)) still_.push_back(module);
      if (is_still && what == Freeze::kNorm)
        for (const at::Tensor& parameter : module->parameters(/*recurse=*/false))
          parameter.set_requires_grad(false);
    }
  }

  std::vector<int> stages() const override {
    const std::vector<NamedTensor> own = head();
    std::vector<int> all;
    int stage = 0;
    for (const NamedTensor& item : named_parameters()) {
      const bool is_head = std::ranges::find(own, item.name, &NamedTensor::name) != own.end();
      stage = network_->stages().of(item.name.substr(kPrefix.size()), stage);
      all.push_back(is_head ? stage + 1 : stage);
    }
    return all;
  }

  std::vector<at::Tensor> parameters() const override { return root_->parameters(); }

  std::vector<NamedTensor> named_parameters() const override {
    std::vector<NamedTensor> parameters;
    for (const auto& item : root_->named_parameters())
      parameters.push_back({item.key(), item.value()});
    return parameters;
  }

  std::vector<NamedTensor> head() const override {
    std::vector<at::Tensor> own = network_->head().parameters();
    if (out_linear_)
      for (const at::Tensor& parameter : out_linear_->parameters()) own.push_back(parameter);
    std::vector<NamedTensor> head = named_parameters();
    std::erase_if(head, [&](const NamedTensor& item) {
      return std::none_of(own.begin(), own.end(),
                          [&](const at::Tensor& tensor) { return tensor.is_same(item.tensor); });
    });
    return head;
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
      // All references to the tensor see the new data.
      item.tensor.set_data(item.tensor.detach().to(item.tensor.options().device(device),
                                                   /*non_blocking=*/false, /*copy=*/false, format));
    }
  }

  void to_float64() override {
    for (const NamedTensor& item : state())
      if (item.tensor.is_floating_point())
        item.tensor.set_data(item.tensor.detach().to(at::kDouble));
  }

  void synchronize_batch_norm(const BatchRanks& ranks) override {
    for (const auto& norm : norms_) norm->synchronize(ranks);
  }

  void fuse_norms() override {
    for (const auto& norm : norms_) norm->fuse_activation();
  }

  void fold_batch_norm() override {
    train(false);
    for (const auto& norm : norms_) norm->fold();
  }

  void fuse() override {
    fold_batch_norm();
    if (norms_.empty() || !stays_finite()) return;
    for (const auto& norm : norms_) norm->fuse();
    for (const auto& module : root_->modules()) {
      if (auto* conv = module->as<Conv2d>()) conv->fuse();
      if (auto* linear = module->as<Linear>()) linear->fuse();
      if (auto* pool = module->as<MaxPool>()) pool->fuse();
    }
    is_fused_ = true;
  }

  Kept kept() const override { return network_->kept(); }

 private:
  // Whether the weights are finite, and the feature maps of numbers far beyond those of images.
  // oneDNN's ReLU makes NaN 0, so a broken model would answer.
  bool stays_finite() const {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& item : state())
      if (!item.tensor.is_cpu() || !std::isfinite(item.tensor.sum().item<double>())) return false;
    const at::Tensor numbers = at::linspace(-kFarBeyond, kFarBeyond, 3 * kSide * kSide);
    const at::Tensor maps = network_->features(numbers.view({1, 3, kSide, kSide}));
    return at::isfinite(maps).all().item<bool>();
  }

  // pooled(), [N, C].
  at::Tensor means_of(const at::Tensor& images) const {
    if (const at::Tensor input = is_fused_ ? fusable(images) : at::Tensor(); input.defined()) {
      const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::DispatchKey::AutocastCPU);
      return means_of_pieces(input);
    }
    return network_->pooled(network_->features(images));
  }

  // A few images at a time, whose feature maps stay in the cache.
  at::Tensor means_of_pieces(const at::Tensor& images) const {
    std::vector<at::Tensor> means;
    for (const at::Tensor& some :
         images.split(static_cast<std::int64_t>(kImagesTimesBytes / images.element_size())))
      means.push_back(network_->features(some).mean({2, 3}, /*keepdim=*/false, c10::kFloat));
    return at::cat(means);
  }

  // [N, h, w]: the sums of the channels, weighted by gradients.
  at::Tensor evidence(const at::Tensor& images, const std::vector<int>& classes) {
    if (const std::optional<Watched> watched = network_->watched(images)) {
      const at::AutoGradMode with_graph(true);
      const at::Tensor gradient = torch::autograd::grad({network_->head_input(watched->features)},
                                                        {watched->activations}, {rows_of(classes)})
                                      .front();
      // The patches are the last tokens.
      const std::int64_t height = watched->height, width = (gradient.size(1) - 1) / height;
      const auto patches = [&](const at::Tensor& tokens) {
        return tokens.narrow(1, tokens.size(1) - height * width, height * width);
      };
      const at::Tensor weights = patches(gradient).mean(1, /*keepdim=*/true);
      return (patches(watched->activations.detach()) * weights).sum(2).view({-1, height, width});
    }
    const at::Tensor features = network_->features(images);
    return (features * weights_of(features.mean({2, 3}), classes)).sum(1);
  }

  // The gradients of these classes' logits with respect to the head's input, [classes, D]. Two
  // linear layers are multiplied into one.
  at::Tensor rows_of(const std::vector<int>& classes) const {
    const at::Tensor& first = network_->head().weight();
    const std::vector<std::int64_t> ids(classes.begin(), classes.end());
    const at::Tensor rows = at::tensor(ids, at::TensorOptions(first.device()).dtype(at::kLong));
    return (out_linear_ ? out_linear_->weight().index_select(0, rows).mm(first)
                        : first.index_select(0, rows))
        .detach();
  }

  // The gradients of these classes' logits with respect to the means of the last feature maps,
  // [classes, C, 1, 1].
  at::Tensor weights_of(const at::Tensor& means, const std::vector<int>& classes) const {
    const at::Tensor of_input = rows_of(classes);
    const at::AutoGradMode with_graph(true);
    const at::Tensor leaf = means.detach().requires_grad_();
    const at::Tensor weights =
        torch::autograd::grad({network_->head_input(leaf)}, {leaf}, {of_input}).front();
    return weights.view({weights.size(0), weights.size(1), 1, 1});
  }

  // One operator for all layers, which on a GPU costs the host as much as one layer's would.
  void count_batch() {
    std::vector<at::Tensor> counters;
    for (const auto& norm : norms_)
      if (norm->is_training()) counters.push_back(norm->counter());
    if (!counters.empty()) at::_foreach_add_(counters, 1);
  }

  // All in one tensor, which is uploaded once.
  void draw_masks(const at::Tensor& images) {
    constexpr std::uint64_t kPurpose = 0x64726f70;  // "drop"
    std::int64_t width = 0;
    for (const auto& drop : drops_) width += drop->width();
    if (width == 0) return;
    const auto count = static_cast<std::size_t>(images.size(0));
    const at::Tensor masks =
        at::empty({images.size(0), width}, at::TensorOptions().pinned_memory(images.is_cuda()));
    auto* next = masks.mutable_data_ptr<float>();
    for (std::size_t i = 0; i < count; ++i) {
      RandomSequence random{kPurpose, keys_.size() == count ? keys_[i] : i};
      for (const auto& drop : drops_)
        for (std::int64_t k = 0; k < drop->width(); ++k)
          *next++ = random.uniform() < drop->rate() ? 0.0F : 1.0F;
    }
    const at::Tensor there = masks.to(images.device(), /*non_blocking=*/true);
    std::int64_t first = 0;
    for (const auto& drop : drops_) {
      if (drop->width() > 0) drop->set_mask(there.narrow(1, first, drop->width()));
      first += drop->width();
    }
  }

  std::shared_ptr<torch::nn::Module> root_;
  std::shared_ptr<Network> network_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;        // of the network
  std::vector<std::shared_ptr<Drop>> drops_;               // likewise
  std::vector<std::shared_ptr<torch::nn::Module>> still_;  // norms and drops of what is frozen
  std::vector<std::uint64_t> keys_;                        // of the images
  std::shared_ptr<Linear> out_linear_;
  Freeze frozen_ = Freeze::kNone;
  bool is_fused_ = false;
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

std::unique_ptr<ImageModel> image_model_of(std::shared_ptr<Network> network,
                                           const ModelOptions& options) {
  return std::make_unique<NetworkModel>(std::move(network), options);
}

std::unique_ptr<ImageModel> make_image_model(const ModelOptions& options) {
  return image_model_of(make_network(options), options);
}

}  // namespace kiln
