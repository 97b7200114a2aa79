#include "model/networks.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/layers.h"

namespace kiln {
namespace {

struct ResNetShape {
  bool bottleneck;
  std::array<int, 4> num_blocks;
  int groups = 1;
  int width_per_group = 64;
  // From the channels inside a block to those that it returns.
  std::int64_t expansion() const { return bottleneck ? 4 : 1; }
};

// Convolutions in a row, each with its norm; to the last one the input is added.
class Block : public Layer {
 public:
  // `channels`: inside the block, before ResNeXt's and Wide ResNet's widening.
  Block(const ResNetShape& shape, std::int64_t in_channels, std::int64_t channels,
        std::int64_t stride) {
    if (shape.bottleneck) {
      const std::int64_t width = channels * shape.width_per_group / 64 * shape.groups;
      add({in_channels, width, 1});
      add({width, width, 3, stride, shape.groups});
      add({width, channels * shape.expansion(), 1});
    } else {
      add({in_channels, channels, 3, stride});
      add({channels, channels, 3});
    }
    const std::int64_t out_channels = convs_.back()->out_channels();
    if (stride == 1 && in_channels == out_channels) return;
    // Projects the input to the output's shape. The state dict lists it last.
    downsample_ = register_module(
        "downsample", std::make_shared<ConvNorm>(ConvShape{in_channels, out_channels, 1, stride},
                                                 Activation::kNone, NormPlan()));
  }

  // Fused, it may overwrite `x`.
  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor y = x;
    for (std::size_t i = 0; i + 1 < norms_.size(); ++i) y = norms_[i]->convolved_relu(y);
    return norms_.back()->convolved_relu(y,
                                         [&] { return downsample_ ? downsample_->forward(x) : x; });
  }

  void count(KeptNumbers& kept) const override {
    for (const auto& conv : convs_) kept.add(*conv);
    if (downsample_) kept.add(convs_.back()->out_channels());
  }

  BatchNorm2d& last_norm() { return *norms_.back(); }

 private:
  void add(const ConvShape& shape) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, std::make_shared<Conv2d>(shape)));
    norms_.push_back(register_module("bn" + number, std::make_shared<BatchNorm2d>(convs_.back())));
  }

  std::vector<std::shared_ptr<Conv2d>> convs_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;
  std::shared_ptr<Layer> downsample_;
};

class ResNet : public Network {
 public:
  ResNet(const ResNetShape& shape, bool zero_init_residual, int num_outputs)
      : zero_init_residual_(zero_init_residual) {
    conv1_ = register_module("conv1", std::make_shared<Conv2d>(ConvShape{3, 64, 7, 2}));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(conv1_));
    std::int64_t in_channels = 64;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stages_[i] = register_module("layer" + std::to_string(i + 1), std::make_shared<Chain>());
      const std::int64_t channels = 64LL << i;
      for (int k = 0; k < shape.num_blocks[i]; ++k) {
        const std::int64_t stride = k == 0 && i > 0 ? 2 : 1;
        stages_[i]->add(std::make_shared<Block>(shape, in_channels, channels, stride));
        in_channels = channels * shape.expansion();
      }
    }
    pool_ = register_module("maxpool", std::make_shared<MaxPool>());
    fc_ = register_module("fc", std::make_shared<Linear>(in_channels, num_outputs));
  }

  at::Tensor features(const at::Tensor& images) override {
    at::Tensor x = bn1_->convolved_relu(images);
    x = pool_->forward(x);
    for (const auto& stage : stages_) x = stage->forward(x);
    return x;
  }
  Linear& head() override { return *fc_; }
  StageNames stages() const override { return {"layer"}; }

  void initialize() override {
    fc_->initialize();
    init_convolutions(*this, Fan::kOut);
    if (!zero_init_residual_) return;
    const at::NoGradGuard no_grad;
    for (const auto& module : modules())
      if (auto* block = module->as<Block>()) block->last_norm().weight().zero_();
  }

  Kept kept() const override {
    KeptNumbers kept;
    kept.add(*conv1_);
    kept.add_pooled(conv1_->out_channels());
    for (const auto& stage : stages_) stage->count(kept);
    return kept;
  }

 private:
  bool zero_init_residual_;
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::array<std::shared_ptr<Chain>, 4> stages_;
  std::shared_ptr<MaxPool> pool_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace

std::shared_ptr<Network> make_resnet(const ModelOptions& options, int num_outputs) {
  static const std::map<std::string_view, ResNetShape> kShapes{
      {"resnet18", {false, {2, 2, 2, 2}}},
      {"resnet34", {false, {3, 4, 6, 3}}},
      {"resnet50", {true, {3, 4, 6, 3}}},
      {"resnet101", {true, {3, 4, 23, 3}}},
      {"resnet152", {true, {3, 8, 36, 3}}},
      {"resnext50_32x4d", {true, {3, 4, 6, 3}, 32, 4}},
      {"resnext101_32x8d", {true, {3, 4, 23, 3}, 32, 8}},
      {"wide_resnet50_2", {true, {3, 4, 6, 3}, 1, 128}},
      {"wide_resnet101_2", {true, {3, 4, 23, 3}, 1, 128}},
  };
  return std::make_shared<ResNet>(kShapes.at(options.model_name), options.zero_init_residual,
                                  num_outputs);
}

}  // namespace kiln
