#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "model/inverted_residual.h"
#include "model/networks.h"

namespace kiln {
namespace {

constexpr double kBranchDrop = 0.2;  // of the branch after the last one; from 0, linearly

struct Stage {
  bool is_fused;
  std::int64_t widening, kernel, stride, out_channels;
  int num_blocks;
};

struct EfficientNetShape {
  std::int64_t first_channels;
  std::vector<Stage> stages;
  std::int64_t means = 1280;
  double dropout = 0.2;  // of the means
  NormPlan norm = {};
};

// B0 with its channels and its blocks multiplied.
EfficientNetShape scaled(double width, double depth, double dropout) {
  EfficientNetShape shape{multiple_of_8(32 * width),
                          {{false, 1, 3, 1, 16, 1},
                           {false, 6, 3, 2, 24, 2},
                           {false, 6, 5, 2, 40, 2},
                           {false, 6, 3, 2, 80, 3},
                           {false, 6, 5, 1, 112, 3},
                           {false, 6, 5, 2, 192, 4},
                           {false, 6, 3, 1, 320, 1}}};
  for (Stage& stage : shape.stages) {
    stage.out_channels = multiple_of_8(static_cast<double>(stage.out_channels) * width);
    stage.num_blocks = static_cast<int>(std::ceil(stage.num_blocks * depth));
  }
  shape.means = 4 * shape.stages.back().out_channels;
  shape.dropout = dropout;
  return shape;
}

class EfficientNet : public ChainNetwork {
 public:
  EfficientNet(const EfficientNetShape& shape, int num_outputs) {
    std::int64_t channels = shape.first_channels;
    chain().add(
        std::make_shared<ConvNorm>(ConvShape{3, channels, 3, 2}, Activation::kSilu, shape.norm));
    int num_blocks = 0, number = 0;
    for (const Stage& stage : shape.stages) num_blocks += stage.num_blocks;
    for (const Stage& stage : shape.stages) {
      const auto blocks = std::make_shared<Chain>();
      for (int i = 0; i < stage.num_blocks; ++i) {
        blocks->add(
            make_inverted_residual({.in_channels = channels,
                                    .inner_channels = channels * stage.widening,
                                    .out_channels = stage.out_channels,
                                    .kernel = stage.kernel,
                                    .stride = i == 0 ? stage.stride : 1,
                                    .squeezed_channels = std::max<std::int64_t>(1, channels / 4),
                                    .is_fused = stage.is_fused,
                                    .drop_rate = kBranchDrop * number++ / num_blocks,
                                    .norm = shape.norm}));
        channels = stage.out_channels;
      }
      chain().add(blocks);
    }
    chain().add(std::make_shared<ConvNorm>(ConvShape{channels, shape.means, 1}, Activation::kSilu,
                                           shape.norm));
    drop_ = classifier().register_module("0", std::make_shared<Drop>(shape.dropout, shape.means));
    add_head("1", shape.means, num_outputs);
  }

  at::Tensor head_input(const at::Tensor& means) override { return drop_->forward(means); }

  void initialize() override {
    init_convolutions(*this, Fan::kOut);
    const at::NoGradGuard no_grad;
    const double bound = 1 / std::sqrt(static_cast<double>(head().weight().size(0)));
    head().weight().uniform_(-bound, bound);
    head().bias().zero_();
  }

 private:
  std::shared_ptr<Drop> drop_;
};

}  // namespace

std::shared_ptr<Network> make_efficientnet(const ModelOptions& options, int num_outputs) {
  static const std::map<std::string_view, EfficientNetShape> kShapes{
      {"efficientnet_b0", scaled(1, 1, 0.2)},
      {"efficientnet_b1", scaled(1, 1.1, 0.2)},
      {"efficientnet_b2", scaled(1.1, 1.2, 0.3)},
      {"efficientnet_b3", scaled(1.2, 1.4, 0.3)},
      {"efficientnet_v2_s",
       {24,
        {{true, 1, 3, 1, 24, 2},
         {true, 4, 3, 2, 48, 4},
         {true, 4, 3, 2, 64, 4},
         {false, 4, 3, 2, 128, 6},
         {false, 6, 3, 1, 160, 9},
         {false, 6, 3, 2, 256, 15}},
        1280,
        0.2,
        {.epsilon = 1e-3}}},
  };
  return std::make_shared<EfficientNet>(kShapes.at(options.model_name), num_outputs);
}

}  // namespace kiln
