#include "model/operators/depthwise.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <vector>

#include "model/operators/autocast.h"
#include "model/operators/depthwise_passes.h"

namespace kiln {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

DepthwiseShape shape_of(const at::Tensor& x, at::IntArrayRef size, std::int64_t kernel,
                        std::int64_t stride) {
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16,
              "depthwise convolutions are of float32 or bfloat16");
  TORCH_CHECK((kernel == 3 || kernel == 5 || kernel == 7) && (stride == 1 || stride == 2),
              "depthwise convolutions have kernels of 3, 5 or 7 and strides of 1 or 2");
  return {.images = size[0],
          .channels = size[1],
          .height = size[2],
          .width = size[3],
          .kernel = static_cast<int>(kernel),
          .stride = static_cast<int>(stride),
          .type = x.scalar_type() == at::kFloat ? MapType::kFloat32 : MapType::kBfloat16};
}

at::Tensor empty_maps(at::IntArrayRef size, const at::Tensor& like) {
  return at::empty(size, like.options().memory_format(kChannelsLast));
}

at::Tensor output(const at::Tensor& given, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, std::int64_t stride) {
  const at::Tensor x = given.contiguous(kChannelsLast);
  const at::Tensor taps = weight.to(at::kFloat).contiguous();
  const at::Tensor start = bias ? bias->to(at::kFloat).contiguous() : at::Tensor();
  const DepthwiseShape shape = shape_of(x, x.sizes(), weight.size(2), stride);
  at::Tensor y =
      empty_maps({shape.images, shape.channels, shape.out_height(), shape.out_width()}, x);
  depthwise_output(shape, x.const_data_ptr(), taps.const_data_ptr<float>(),
                   bias ? start.const_data_ptr<float>() : nullptr, y.mutable_data_ptr(),
                   usable_vectors());
  return y;
}

at::Tensor input_gradient(const at::Tensor& given, const at::Tensor& weight, at::IntArrayRef size,
                          std::int64_t stride) {
  const at::Tensor dy = given.contiguous(kChannelsLast);
  const at::Tensor taps = weight.to(at::kFloat).contiguous();
  at::Tensor dx = empty_maps(size, dy);
  depthwise_input_gradient(shape_of(dy, size, weight.size(2), stride), dy.const_data_ptr(),
                           taps.const_data_ptr<float>(), dx.mutable_data_ptr(), usable_vectors());
  return dx;
}

at::Tensor weight_gradient(const at::Tensor& maps, const at::Tensor& gradient, std::int64_t kernel,
                           std::int64_t stride) {
  const at::Tensor x = maps.contiguous(kChannelsLast), dy = gradient.contiguous(kChannelsLast);
  at::Tensor dweight = at::empty({x.size(1), 1, kernel, kernel}, x.options().dtype(at::kFloat));
  depthwise_weight_gradient(shape_of(x, x.sizes(), kernel, stride), x.const_data_ptr(),
                            dy.const_data_ptr(), dweight.mutable_data_ptr<float>(),
                            usable_vectors());
  return dweight;
}

TORCH_LIBRARY_FRAGMENT(kiln, library) {
  library.def("depthwise(Tensor x, Tensor weight, Tensor? bias, int stride) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(output)));
  library.def(
      "depthwise_input_gradient(Tensor dy, Tensor weight, int[] size, int stride) -> Tensor",
      torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(input_gradient)));
  library.def("depthwise_weight_gradient(Tensor x, Tensor dy, int kernel, int stride) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(weight_gradient)));
}

// Through the dispatcher, so that profilers see them.
template <auto kFunction, typename... Arguments>
at::Tensor call(const char* name, const Arguments&... arguments) {
  static const auto called = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow(name, "")
                                 .typed<std::remove_pointer_t<decltype(kFunction)>>();
  return called.call(arguments...);
}

enum class Pass { kOutput, kInput, kWeight };

// The passes that are ours: those that oneDNN has no kernel for or a slower one.
// kiln_bench depthwise prints what they were chosen by (docs/performance.md).
struct Row {
  Pass pass;
  int kernel, stride;
  at::ScalarType type;
};
constexpr Row kOurs[] = {
    {Pass::kInput, 3, 2, at::kBFloat16},  {Pass::kInput, 5, 2, at::kBFloat16},
    {Pass::kInput, 7, 2, at::kBFloat16},  {Pass::kWeight, 5, 1, at::kFloat},
    {Pass::kWeight, 5, 2, at::kFloat},    {Pass::kWeight, 7, 1, at::kFloat},
    {Pass::kWeight, 7, 2, at::kFloat},    {Pass::kWeight, 5, 1, at::kBFloat16},
    {Pass::kWeight, 5, 2, at::kBFloat16}, {Pass::kWeight, 7, 1, at::kBFloat16},
    {Pass::kWeight, 7, 2, at::kBFloat16},
};

bool is_ours(Pass pass, std::int64_t kernel, std::int64_t stride, at::ScalarType type) {
  return std::any_of(std::begin(kOurs), std::end(kOurs), [&](const Row& row) {
    return row.pass == pass && row.kernel == kernel && row.stride == stride && row.type == type;
  });
}

at::ScalarType computing_type(const at::Tensor& weight) {
  const at::ScalarType autocast = Autocast::type_on(c10::kCPU);
  return autocast == at::kFloat ? weight.scalar_type() : autocast;
}

class DepthwiseConvolution : public torch::autograd::Function<DepthwiseConvolution> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& given, const at::Tensor& bias, std::int64_t stride) {
    const at::ScalarType type = computing_type(given);
    const at::Tensor x = images.to(type).contiguous(kChannelsLast), weight = given.to(type);
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["has_bias"] = bias.defined();
    const std::int64_t kernel = weight.size(2);
    if (is_ours(Pass::kOutput, kernel, stride, type))
      return call<&output>("kiln::depthwise", x, weight,
                           bias.defined() ? std::optional(bias) : std::nullopt, stride);
    return at::conv2d(x, weight, bias.defined() ? bias.to(type) : bias, stride, kernel / 2,
                      /*dilation=*/1, x.size(1));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = gradients[0].to(x.scalar_type()).contiguous(kChannelsLast);
    const std::int64_t stride = context->saved_data["stride"].toInt(), kernel = weight.size(2);
    const auto own = [&](Pass pass) { return is_ours(pass, kernel, stride, x.scalar_type()); };
    const bool needs_dx = context->needs_input_grad(0), needs_dw = context->needs_input_grad(1);
    at::Tensor dx, dweight, dbias;
    if (needs_dx && own(Pass::kInput))
      dx = call<&input_gradient>("kiln::depthwise_input_gradient", dy, weight, x.sizes(), stride);
    if (needs_dw && own(Pass::kWeight))
      dweight = call<&weight_gradient>("kiln::depthwise_weight_gradient", x, dy, kernel, stride);
    const std::array<bool, 3> rest{needs_dx && !dx.defined(), needs_dw && !dweight.defined(),
                                   false};
    if (rest[0] || rest[1]) {
      const auto found = at::convolution_backward(dy, x, weight, std::nullopt, {stride, stride},
                                                  {kernel / 2, kernel / 2}, {1, 1}, false, {0, 0},
                                                  x.size(1), rest);
      if (rest[0]) dx = std::get<0>(found);
      if (rest[1]) dweight = std::get<1>(found);
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2))
      dbias = dy.sum({0, 2, 3});
    return {dx, dweight, dbias, {}};
  }
};

}  // namespace

bool is_own_depthwise(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                      std::int64_t groups) {
  static const bool can = usable_vectors() != Vectors::kNone;
  const auto is_known = [](at::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16;
  };
  if (!can || !x.is_cpu() || x.dim() != 4 || x.numel() == 0 || groups != x.size(1) ||
      weight.size(0) != groups || weight.size(1) != 1 || weight.size(2) != weight.size(3) ||
      !is_known(x.scalar_type()) || !is_known(weight.scalar_type()))
    return false;
  const at::ScalarType type = computing_type(weight);
  if (Autocast::type_on(c10::kCPU) == at::kFloat && x.scalar_type() != type) return false;
  const bool has_gradients = at::GradMode::is_enabled();
  return std::any_of(std::begin(kOurs), std::end(kOurs), [&](const Row& row) {
    return row.kernel == weight.size(2) && row.stride == stride && row.type == type &&
           (has_gradients || row.pass == Pass::kOutput);
  });
}

at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, std::int64_t stride) {
  return DepthwiseConvolution::apply(x, weight, bias, stride);
}

}  // namespace kiln
