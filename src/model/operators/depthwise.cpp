#include "model/operators/depthwise.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <optional>

#include "model/operators/autocast.h"
#include "model/operators/depthwise_passes.h"

namespace kiln {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
using OptionalTensor = std::optional<at::Tensor>;

// The passes that are ours, since oneDNN has no kernel for them or a slower one: those for which
// `kiln_bench depthwise` finds it so (docs/performance.md).
constexpr int kOutput = 1, kInput = 2, kWeight = 4;
struct Row {
  int kernel, stride, float32, bfloat16;
};
constexpr Row kOurs[] = {
    {3, 1, 0, 0},
    {3, 2, 0, kInput},
    {5, 1, kWeight, kWeight},
    {5, 2, kWeight, kInput | kWeight},
    {7, 1, kWeight, kWeight},
    {7, 2, kWeight, kInput | kWeight},
};

int own_passes(std::int64_t kernel, std::int64_t stride, at::ScalarType type) {
  for (const Row& row : kOurs)
    if (row.kernel == kernel && row.stride == stride)
      return type == at::kFloat ? row.float32 : type == at::kBFloat16 ? row.bfloat16 : 0;
  return 0;
}

DepthwiseShape shape_of(const at::Tensor& maps, at::IntArrayRef size, std::int64_t kernel,
                        std::int64_t stride) {
  const bool is_float = maps.scalar_type() == at::kFloat;
  TORCH_CHECK((is_float || maps.scalar_type() == at::kBFloat16) && kernel % 2 == 1 && kernel > 2 &&
                  kernel < 8 && (stride == 1 || stride == 2) && depthwise_lanes() > 0,
              "no depthwise convolution of this kind");
  return {size[0],
          size[1],
          size[2],
          size[3],
          static_cast<int>(kernel),
          static_cast<int>(stride),
          is_float ? MapType::kFloat32 : MapType::kBfloat16};
}

at::Tensor correlate(DepthwisePass pass, const DepthwiseShape& shape, const at::Tensor& maps,
                     const at::Tensor& weight, const OptionalTensor& bias, at::IntArrayRef size) {
  const at::Tensor in = maps.contiguous(kChannelsLast);
  const std::int64_t taps = weight[0].numel();
  const at::Tensor packed = at::zeros({taps + 1, shape.padded_channels()});
  const at::Tensor used = packed.narrow(1, 0, shape.channels);
  used.narrow(0, 0, taps).copy_(weight.reshape({shape.channels, taps}).t());
  if (bias) used[taps].copy_(*bias);
  at::Tensor out = at::empty(size, in.options().memory_format(kChannelsLast));
  run_depthwise(pass, shape, depthwise_lanes(), in.const_data_ptr(), packed.const_data_ptr(),
                out.mutable_data_ptr());
  return out;
}

at::Tensor output(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                  std::int64_t stride) {
  const DepthwiseShape shape = shape_of(x, x.sizes(), weight.size(2), stride);
  return correlate(DepthwisePass::kOutput, shape, x, weight, bias,
                   {shape.images, shape.channels, shape.out_height(), shape.out_width()});
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight, at::IntArrayRef size,
                          std::int64_t stride) {
  return correlate(DepthwisePass::kInputGradient, shape_of(dy, size, weight.size(2), stride), dy,
                   weight, {}, size);
}

at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& dy, std::int64_t kernel,
                           std::int64_t stride) {
  const DepthwiseShape shape = shape_of(x, x.sizes(), kernel, stride);
  const at::Tensor sums =
      at::empty({shape.partial_sums(), kernel, kernel, shape.padded_channels()});
  run_depthwise(DepthwisePass::kWeightGradient, shape, depthwise_lanes(),
                x.contiguous(kChannelsLast).const_data_ptr(),
                dy.contiguous(kChannelsLast).const_data_ptr(), sums.mutable_data_ptr());
  return sums[0].narrow(2, 0, shape.channels).permute({2, 0, 1}).unsqueeze(1).contiguous();
}

TORCH_LIBRARY_FRAGMENT(kiln, library) {
  const auto add = [&](const char* schema, auto function) {
    library.def(schema, torch::dispatch(c10::DispatchKey::CPU, function));
  };
  add("depthwise(Tensor x, Tensor weight, Tensor? bias, int stride) -> Tensor", TORCH_FN(output));
  add("depthwise_input_gradient(Tensor dy, Tensor weight, int[] size, int stride) -> Tensor",
      TORCH_FN(input_gradient));
  add("depthwise_weight_gradient(Tensor x, Tensor dy, int kernel, int stride) -> Tensor",
      TORCH_FN(weight_gradient));
}

// Through the dispatcher, so that profilers see it.
template <auto kFunction, typename... Arguments>
at::Tensor call(const char* name, const Arguments&... arguments) {
  static const auto called = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow(name, "")
                                 .typed<std::remove_pointer_t<decltype(kFunction)>>();
  return called.call(arguments...);
}

at::ScalarType computing_type(const at::Tensor& weight) {
  const at::ScalarType autocast = Autocast::type_on(c10::kCPU);
  return autocast == at::kFloat ? weight.scalar_type() : autocast;
}

class DepthwiseConvolution : public torch::autograd::Function<DepthwiseConvolution> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& given, const OptionalTensor& bias,
                            std::int64_t stride) {
    const at::ScalarType type = computing_type(given);
    const at::Tensor x = images.to(type).contiguous(kChannelsLast), weight = given.to(type);
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["has_bias"] = bias.has_value();
    if ((own_passes(weight.size(2), stride, type) & kOutput) != 0)
      return call<&output>("kiln::depthwise", x, weight, bias, stride);
    return at::conv2d(x, weight, bias ? bias->to(type) : bias, stride, weight.size(2) / 2,
                      /*dilation=*/1, x.size(1));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const std::int64_t stride = context->saved_data["stride"].toInt(), kernel = weight.size(2);
    const at::Tensor dy = gradients[0].to(x.scalar_type()).contiguous(kChannelsLast);
    const int own = own_passes(kernel, stride, x.scalar_type());
    const bool needs_dx = context->needs_input_grad(0), needs_dw = context->needs_input_grad(1);
    const std::array<bool, 3> theirs{needs_dx && (own & kInput) == 0,
                                     needs_dw && (own & kWeight) == 0, false};
    at::Tensor dx, dweight, dbias;
    if (theirs[0] || theirs[1])
      std::tie(dx, dweight, dbias) = at::convolution_backward(
          dy, x, weight, at::OptionalIntArrayRef(), {stride, stride}, {kernel / 2, kernel / 2},
          {1, 1}, /*transposed=*/false, {0, 0}, x.size(1), theirs);
    if (needs_dx && !theirs[0])
      dx = call<&input_gradient>("kiln::depthwise_input_gradient", dy, weight, x.sizes(), stride);
    if (needs_dw && !theirs[1])
      dweight = call<&weight_gradient>("kiln::depthwise_weight_gradient", x, dy, kernel, stride);
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2))
      dbias = dy.sum({0, 2, 3});
    return {dx, dweight, dbias, {}};
  }
};

}  // namespace

bool is_own_depthwise(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                      std::int64_t groups) {
  static const bool can = depthwise_lanes() > 0;
  if (!can || !x.is_cpu() || x.numel() == 0 || groups != x.size(1) || weight.size(0) != groups ||
      weight.size(1) != 1 || weight.size(2) != weight.size(3) ||
      weight.scalar_type() == at::kDouble || x.scalar_type() == at::kDouble ||
      (Autocast::type_on(c10::kCPU) == at::kFloat && x.scalar_type() != weight.scalar_type()))
    return false;
  const int own = own_passes(weight.size(2), stride, computing_type(weight));
  return (at::GradMode::is_enabled() ? own : own & kOutput) != 0;
}

at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, std::int64_t stride) {
  return DepthwiseConvolution::apply(x, weight,
                                     bias.defined() ? OptionalTensor(bias) : std::nullopt, stride);
}

}  // namespace kiln
