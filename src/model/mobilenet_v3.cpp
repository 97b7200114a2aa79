#include <ATen/ops/hardswish.h>

#include <span>

#include "model/inverted_residual.h"
#include "model/networks.h"

namespace kiln {
namespace {

constexpr NormPlan kNorm{.epsilon = 1e-3, .momentum = 0.01};
constexpr double kDropout = 0.2;
constexpr std::int64_t kFirst = 16;

struct Row {
  std::int64_t kernel, inner, out;
  bool squeezes, is_swish;
  std::int64_t stride;
};
constexpr std::array kLarge{
    Row{3, 16, 16, false, false, 1}, Row{3, 64, 24, false, false, 2},
    Row{3, 72, 24, false, false, 1}, Row{5, 72, 40, true, false, 2},
    Row{5, 120, 40, true, false, 1}, Row{5, 120, 40, true, false, 1},
    Row{3, 240, 80, false, true, 2}, Row{3, 200, 80, false, true, 1},
    Row{3, 184, 80, false, true, 1}, Row{3, 184, 80, false, true, 1},
    Row{3, 480, 112, true, true, 1}, Row{3, 672, 112, true, true, 1},
    Row{5, 672, 160, true, true, 2}, Row{5, 960, 160, true, true, 1},
    Row{5, 960, 160, true, true, 1},
};
constexpr std::array kSmall{
    Row{3, 16, 16, true, false, 2},  Row{3, 72, 24, false, false, 2},
    Row{3, 88, 24, false, false, 1}, Row{5, 96, 40, true, true, 2},
    Row{5, 240, 40, true, true, 1},  Row{5, 240, 40, true, true, 1},
    Row{5, 120, 48, true, true, 1},  Row{5, 144, 48, true, true, 1},
    Row{5, 288, 96, true, true, 2},  Row{5, 576, 96, true, true, 1},
    Row{5, 576, 96, true, true, 1},
};

class MobileNetV3 : public ChainNetwork {
 public:
  // `hidden`: the layer between the means and the head.
  MobileNetV3(std::span<const Row> rows, std::int64_t hidden, int num_outputs) {
    chain().add(
        std::make_shared<ConvNorm>(ConvShape{3, kFirst, 3, 2}, Activation::kHardswish, kNorm));
    std::int64_t channels = kFirst;
    for (const Row& row : rows) {
      chain().add(make_inverted_residual(
          {.in_channels = channels,
           .inner_channels = row.inner,
           .out_channels = row.out,
           .kernel = row.kernel,
           .stride = row.stride,
           .squeezed_channels = row.squeezes ? multiple_of_8(row.inner / 4) : 0,
           .activation = row.is_swish ? Activation::kHardswish : Activation::kRelu,
           .norm = kNorm}));
      channels = row.out;
    }
    const std::int64_t means = 6 * channels;
    chain().add(
        std::make_shared<ConvNorm>(ConvShape{channels, means, 1}, Activation::kHardswish, kNorm));
    hidden_ = classifier().register_module("0", std::make_shared<Linear>(means, hidden));
    drop_ = classifier().register_module("2", std::make_shared<Drop>(kDropout, hidden));
    add_head("3", hidden, num_outputs);
  }

  at::Tensor head_input(const at::Tensor& means) override {
    return drop_->forward(activated(hidden_->forward(means), Activation::kHardswish));
  }

  void initialize() override {
    init_convolutions(*this, Fan::kOut);
    const at::NoGradGuard no_grad;
    for (Linear* layer : {hidden_.get(), &head()}) {
      layer->weight().normal_(0, 0.01);
      layer->bias().zero_();
    }
  }

 private:
  std::shared_ptr<Linear> hidden_;
  std::shared_ptr<Drop> drop_;
};

}  // namespace

std::shared_ptr<Network> make_mobilenet_v3(const ModelOptions& options, int num_outputs) {
  if (options.model_name == "mobilenet_v3_small")
    return std::make_shared<MobileNetV3>(kSmall, 1024, num_outputs);
  return std::make_shared<MobileNetV3>(kLarge, 1280, num_outputs);
}

}  // namespace kiln
