#include "model/operators/depthwise.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

#include "model/operators/autocast.h"
#include "model/operators/depthwise_passes.h"

namespace kiln {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
using OptionalTensor = std::optional<at::Tensor>;

// The gradients that are ours, since oneDNN has no kernel for them or a slower one: those for which
// `kiln_bench depthwise` finds it so (docs/performance.md).
constexpr int kInput = 1, kWeight = 2;
struct Row {
  int kernel, stride, float32, bfloat16;
};
constexpr Row kOurs[] = {{3, 2, 0, kInput},
                         {5, 1, kWeight, kWeight},
                         {5, 2, kWeight, kInput | kWeight},
                         {7, 1, kInput | kWeight, kWeight},
                         {7, 2, kWeight, kInput | kWeight}};

int own_gradients(std::int64_t kernel, std::int64_t stride, at::ScalarType type) {
  for (const Row& row : kOurs)
    if (row.kernel == kernel && row.stride == stride)
      return type == at::kFloat ? row.float32 : type == at::kBFloat16 ? row.bfloat16 : 0;
  return 0;
}

std::tuple<at::Tensor, at::Tensor> gradients_of(const at::Tensor& given_dy,
                                                const at::Tensor& given_x, const at::Tensor& weight,
                                                std::int64_t stride, std::array<bool, 2> needed) {
  const at::Tensor dy = given_dy.contiguous(kChannelsLast), x = given_x.contiguous(kChannelsLast);
  const std::int64_t kernel = weight.size(2), taps = kernel * kernel, channels = x.size(1);
  const bool is_float = x.scalar_type() == at::kFloat;
  TORCH_CHECK((is_float || x.scalar_type() == at::kBFloat16) && dy.dtype() == x.dtype() &&
                  (kernel == 3 || kernel == 5 || kernel == 7) && (stride == 1 || stride == 2) &&
                  depthwise_lanes() > 0,
              "no depthwise convolution of this kind");
  const DepthwiseShape shape{x.size(0),
                             channels,
                             x.size(2),
                             x.size(3),
                             static_cast<int>(kernel),
                             static_cast<int>(stride),
                             is_float ? MapType::kFloat32 : MapType::kBfloat16};
  at::Tensor dx, dweight;
  if (needed[0]) {
    const at::Tensor packed = at::zeros({taps, shape.padded_channels()});
    packed.narrow(1, 0, channels).copy_(weight.reshape({channels, taps}).t());
    dx = at::empty_like(x);
    depthwise_input_gradient(shape, depthwise_lanes(), dy.const_data_ptr(),
                             packed.const_data_ptr<float>(), dx.mutable_data_ptr());
  }
  if (needed[1]) {
    const at::Tensor sums = at::empty({shape.partial_sums(), taps, shape.padded_channels()});
    depthwise_weight_gradient(shape, depthwise_lanes(), x.const_data_ptr(), dy.const_data_ptr(),
                              sums.mutable_data_ptr<float>());
    dweight = sums[0].narrow(1, 0, channels).t().reshape(weight.sizes());
  }
  return {dx, dweight};
}

TORCH_LIBRARY_FRAGMENT(kiln, library) {
  library.def(
      "depthwise_backward(Tensor dy, Tensor x, Tensor weight, int stride, bool[2] output_mask) -> "
      "(Tensor, Tensor)",
      torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(gradients_of)));
}

class DepthwiseConvolution : public torch::autograd::Function<DepthwiseConvolution> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& given, const OptionalTensor& bias,
                            std::int64_t stride) {
    const at::ScalarType type = Autocast::type_on(c10::kCPU, given.scalar_type());
    const at::Tensor x = images.to(type).contiguous(kChannelsLast), weight = given.to(type);
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["has_bias"] = bias.has_value();
    return at::conv2d(x, weight, bias ? bias->to(type) : bias, stride, weight.size(2) / 2,
                      /*dilation=*/1, x.size(1));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const std::int64_t stride = context->saved_data["stride"].toInt(), kernel = weight.size(2);
    const at::Tensor dy = gradients[0].to(x.scalar_type()).contiguous(kChannelsLast);
    const int own = own_gradients(kernel, stride, x.scalar_type());
    const bool needs_dx = context->needs_input_grad(0), needs_dw = context->needs_input_grad(1);
    const std::array ours{needs_dx && (own & kInput) != 0, needs_dw && (own & kWeight) != 0};
    const std::array theirs{needs_dx && !ours[0], needs_dw && !ours[1], false};
    at::Tensor dx, dweight, dbias;
    if (theirs[0] || theirs[1])
      std::tie(dx, dweight, dbias) = at::convolution_backward(
          dy, x, weight, at::OptionalIntArrayRef(), {stride, stride}, {kernel / 2, kernel / 2},
          {1, 1}, /*transposed=*/false, {0, 0}, x.size(1), theirs);
    static const auto own_backward =  // through the dispatcher, so that profilers see it
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("kiln::depthwise_backward", "")
            .typed<decltype(gradients_of)>();
    const auto [own_dx, own_dweight] = own_backward.call(dy, x, weight, stride, ours);
    if (ours[0]) dx = own_dx;
    if (ours[1]) dweight = own_dweight;
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2))
      dbias = dy.sum({0, 2, 3});
    return {dx, dweight, dbias, {}};
  }
};

}  // namespace

bool is_own_depthwise(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                      std::int64_t groups) {
  static const bool can = depthwise_lanes() > 0;
  if (!can || !at::GradMode::is_enabled() || !x.is_cpu() || x.numel() == 0 || groups != x.size(1) ||
      weight.size(0) != groups || weight.size(1) != 1 || weight.size(2) != weight.size(3) ||
      weight.scalar_type() == at::kDouble || x.scalar_type() == at::kDouble ||
      (Autocast::type_on(c10::kCPU) == at::kFloat && x.scalar_type() != weight.scalar_type()))
    return false;
  return own_gradients(weight.size(2), stride,
                       Autocast::type_on(c10::kCPU, weight.scalar_type())) != 0;
}

at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, std::int64_t stride) {
  return DepthwiseConvolution::apply(x, weight,
                                     bias.defined() ? OptionalTensor(bias) : std::nullopt, stride);
}

}  // namespace kiln
