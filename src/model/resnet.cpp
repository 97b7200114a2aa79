#include "model/networks.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {
namespace {

struct ResNetShape {
  bool bottleneck;
  std::array<int, 4> num_blocks;
  int groups = 1;
  int width_per_group = 64;
};

const ResNetShape& shape_of(std::string_view name) {
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
  return kShapes.at(name);
}

struct BlockShape {
  std::int64_t in_channels;
  std::int64_t channels;  // inside the block, before ResNeXt's and Wide ResNet's widening
  std::int64_t out_channels;
  std::int64_t stride;
  std::int64_t groups;
  std::int64_t width_per_group;
};

// The 1x1 convolution that projects the identity to the block's output shape.
class Downsample : public torch::nn::Module {
 public:
  explicit Downsample(const BlockShape& shape) {
    conv_ = register_module("0", std::make_shared<Conv2d>(ConvShape{
                                     shape.in_channels, shape.out_channels, 1, shape.stride}));
    norm_ = register_module("1", std::make_shared<BatchNorm2d>(conv_));
  }
  at::Tensor forward(const at::Tensor& x) { return norm_->forward(conv_->forward(x)); }
  std::int64_t out_channels() const { return conv_->out_channels(); }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
};

class Block : public torch::nn::Module {
 public:
  // Fused, it may overwrite `x`.
  at::Tensor forward(const at::Tensor& x) {
    return branch(x, [&] { return downsample_ ? downsample_->forward(x) : x; });
  }
  virtual BatchNorm2d& last_norm() = 0;
  void count(KeptNumbers& kept) const {
    for (const auto& conv : convs_) kept.add(*conv);
    if (downsample_) kept.add(downsample_->out_channels());
  }

 protected:
  // relu(layers(x) + identity()).
  virtual at::Tensor branch(const at::Tensor& x, const std::function<at::Tensor()>& identity) = 0;

  std::shared_ptr<Conv2d> add_conv(const std::string& name, const ConvShape& shape) {
    return convs_.emplace_back(register_module(name, std::make_shared<Conv2d>(shape)));
  }
  std::shared_ptr<BatchNorm2d> add_norm(const std::string& name,
                                        const std::shared_ptr<Conv2d>& before) {
    return register_module(name, std::make_shared<BatchNorm2d>(before));
  }
  // Call after the branch's layers are added: the state dict lists this one last.
  void add_downsample(const BlockShape& shape) {
    if (shape.stride == 1 && shape.in_channels == shape.out_channels) return;
    downsample_ = register_module("downsample", std::make_shared<Downsample>(shape));
  }

 private:
  std::vector<std::shared_ptr<Conv2d>> convs_;  // of the branch, in order
  std::shared_ptr<Downsample> downsample_;
};

class BasicBlock : public Block {
 public:
  static constexpr std::int64_t kExpansion = 1;

  explicit BasicBlock(const BlockShape& shape) {
    conv1_ = add_conv("conv1", {shape.in_channels, shape.channels, 3, shape.stride});
    bn1_ = add_norm("bn1", conv1_);
    conv2_ = add_conv("conv2", {shape.channels, shape.channels, 3});
    bn2_ = add_norm("bn2", conv2_);
    add_downsample(shape);
  }
  BatchNorm2d& last_norm() override { return *bn2_; }

 private:
  at::Tensor branch(const at::Tensor& x, const std::function<at::Tensor()>& identity) override {
    return bn2_->convolved_relu(bn1_->convolved_relu(x), identity);
  }

  std::shared_ptr<Conv2d> conv1_, conv2_;
  std::shared_ptr<BatchNorm2d> bn1_, bn2_;
};

class Bottleneck : public Block {
 public:
  static constexpr std::int64_t kExpansion = 4;

  explicit Bottleneck(const BlockShape& shape) {
    const std::int64_t width = shape.channels * shape.width_per_group / 64 * shape.groups;
    conv1_ = add_conv("conv1", {shape.in_channels, width, 1});
    bn1_ = add_norm("bn1", conv1_);
    conv2_ = add_conv("conv2", {width, width, 3, shape.stride, shape.groups});
    bn2_ = add_norm("bn2", conv2_);
    conv3_ = add_conv("conv3", {width, shape.out_channels, 1});
    bn3_ = add_norm("bn3", conv3_);
    add_downsample(shape);
  }
  BatchNorm2d& last_norm() override { return *bn3_; }

 private:
  at::Tensor branch(const at::Tensor& x, const std::function<at::Tensor()>& identity) override {
    return bn3_->convolved_relu(bn2_->convolved_relu(bn1_->convolved_relu(x)), identity);
  }

  std::shared_ptr<Conv2d> conv1_, conv2_, conv3_;
  std::shared_ptr<BatchNorm2d> bn1_, bn2_, bn3_;
};

// Blocks of one resolution; the first changes stride and channels.
class Stage : public torch::nn::Module {
 public:
  void add(std::shared_ptr<Block> block) {
    blocks_.push_back(register_module(std::to_string(blocks_.size()), std::move(block)));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : blocks_) x = block->forward(x);
    return x;
  }
  const std::vector<std::shared_ptr<Block>>& blocks() const { return blocks_; }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

class ResNet : public Network {
 public:
  ResNet(const ResNetShape& shape, bool zero_init_residual, int num_outputs)
      : zero_init_residual_(zero_init_residual) {
    conv1_ = register_module("conv1", std::make_shared<Conv2d>(ConvShape{3, 64, 7, 2}));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(conv1_));
    std::int64_t channels = 64;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stages_[i] = register_module("layer" + std::to_string(i + 1), std::make_shared<Stage>());
      channels = shape.bottleneck ? fill_stage<Bottleneck>(shape, i, channels)
                                  : fill_stage<BasicBlock>(shape, i, channels);
    }
    fc_ = register_module("fc", std::make_shared<Linear>(channels, num_outputs));
  }

  at::Tensor features(const at::Tensor& images) override {
    at::Tensor x = bn1_->convolved_relu(images);
    x = at::max_pool2d(x, 3, 2, 1);
    for (const auto& stage : stages_) x = stage->forward(x);
    return x;
  }
  Linear& head() override { return *fc_; }

  void initialize() override {
    fc_->initialize();
    init_convolutions(*this, Fan::kOut);
    if (!zero_init_residual_) return;
    const at::NoGradGuard no_grad;
    for (const auto& stage : stages_)
      for (const auto& block : stage->blocks()) block->last_norm().weight().zero_();
  }

  double kept_numbers() const override {
    KeptNumbers kept;
    kept.add(*conv1_);
    kept.area /= 4;  // pooling
    kept.add(conv1_->out_channels());
    for (const auto& stage : stages_)
      for (const auto& block : stage->blocks()) block->count(kept);
    return kept.sum;
  }

 private:
  template <typename BlockType>
  std::int64_t fill_stage(const ResNetShape& shape, std::size_t stage, std::int64_t in_channels) {
    const std::int64_t channels = 64LL << stage;
    const std::int64_t out_channels = channels * BlockType::kExpansion;
    for (int i = 0; i < shape.num_blocks[stage]; ++i) {
      const std::int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      stages_[stage]->add(std::make_shared<BlockType>(BlockShape{
          in_channels, channels, out_channels, stride, shape.groups, shape.width_per_group}));
      in_channels = out_channels;
    }
    return out_channels;
  }

  bool zero_init_residual_;
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::array<std::shared_ptr<Stage>, 4> stages_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace

std::shared_ptr<Network> make_resnet(const ModelOptions& options, int num_outputs) {
  return std::make_shared<ResNet>(shape_of(options.model_name), options.zero_init_residual,
                                  num_outputs);
}

}  // namespace kiln
