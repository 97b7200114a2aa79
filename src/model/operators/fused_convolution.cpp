#include "model/operators/fused_convolution.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <optional>
#include <vector>

#include "model/operators/autocast.h"
#include "model/operators/joined_maps.h"

namespace kiln {
namespace {

using Operator = std::optional<c10::OperatorHandle>;
using Values = std::vector<c10::IValue>;  // arguments in the schema's order, then the result

Operator operator_named(const char* name, const char* overload = "") {
  Operator found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (found && !found->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) found.reset();
  return found;
}

c10::IValue result_of(const Operator& called, Values values) {
  called->callBoxed(values);
  return std::move(values.front());
}

struct Operators {
  Operator pack = operator_named("mkldnn::_reorder_convolution_weight");
  Operator convolve = operator_named("mkldnn::_convolution_pointwise");
  Operator convolve_and_add = operator_named("mkldnn::_convolution_pointwise_", "binary");
  Operator has_bf16 = operator_named("mkldnn::_is_mkldnn_bf16_supported");
  bool all = pack && convolve && convolve_and_add;
  bool all_in_bf16 = all && has_bf16 && result_of(has_bf16, {}).toBool();
};

const Operators& operators() {
  static const Operators found;
  return found;
}

// oneDNN's names, in the order of Activation.
constexpr std::array kNames{"none", "relu", "hardswish", "swish"};

using Sides = std::vector<std::int64_t>;
Sides both(std::int64_t side) {
  return {side, side};
}

}  // namespace

bool can_fuse(const at::Tensor& x) {
  const c10::ScalarType type = x.scalar_type();
  return x.is_cpu() && Autocast::type_on(c10::kCPU) == c10::kFloat &&
         c10::InferenceMode::is_enabled() && at::globalContext().userEnabledMkldnn() &&
         ((type == c10::kFloat && operators().all) ||
          (type == c10::kBFloat16 && operators().all_in_bf16));
}

FusedConvolution::FusedConvolution(const at::Tensor& weight, const at::Tensor& bias,
                                   std::int64_t stride, std::int64_t groups)
    : weight_(weight.detach()), bias_(bias), stride_(stride), groups_(groups) {}

void FusedConvolution::pack_for(const at::Tensor& x) {
  if (packed_weight_.defined() && packed_weight_.scalar_type() == x.scalar_type() &&
      height_ == x.size(2) && width_ == x.size(3))
    return;
  packed_weight_ =
      result_of(operators().pack, {weight_.to(x.scalar_type()), both(padding_of(weight_.size(2))),
                                   both(stride_), both(1), groups_, x.sizes().vec()})
          .toTensor();
  if (bias_.defined()) typed_bias_ = bias_.to(x.scalar_type());
  height_ = x.size(2);
  width_ = x.size(3);
}

at::Tensor FusedConvolution::forward(const at::Tensor& x, Activation activation,
                                     const at::Tensor& added) {
  pack_for(x);
  const c10::IValue none;
  const c10::IValue bias = typed_bias_.defined() ? typed_bias_ : none;
  const Sides padding = both(padding_of(weight_.size(2))), stride = both(stride_),
              dilation = both(1);
  const c10::List<std::optional<at::Scalar>> no_scalars;
  if (!added.defined())
    return result_of(operators().convolve,
                     {x, packed_weight_, bias, padding, stride, dilation, groups_,
                      kNames.at(static_cast<std::size_t>(activation)), no_scalars, none})
        .toTensor();
  return result_of(operators().convolve_and_add,
                   {added, x, packed_weight_, bias, padding, stride, dilation, groups_, "add", none,
                    activation == Activation::kRelu ? c10::IValue("relu") : none, no_scalars, none})
      .toTensor();
}

at::Tensor joined_relu(const std::vector<at::Tensor>& maps, const at::Tensor& scale,
                       const at::Tensor& shift, int side) {
  std::vector<at::Tensor> dense;
  std::vector<Maps> all;
  for (const at::Tensor& one : maps) {
    dense.push_back(one.contiguous(at::MemoryFormat::ChannelsLast));
    all.push_back({dense.back().const_data_ptr(), one.size(1)});
  }
  const at::Tensor& first = dense.front();
  at::Tensor out =
      at::empty({first.size(0), scale.size(0), first.size(2) / side, first.size(3) / side},
                first.options().memory_format(at::MemoryFormat::ChannelsLast));
  joined_relu(all,
              {.images = first.size(0),
               .height = first.size(2),
               .width = first.size(3),
               .type = first.scalar_type() == c10::kFloat ? MapType::kFloat32 : MapType::kBfloat16},
              scale.const_data_ptr<float>(), shift.const_data_ptr<float>(), side,
              out.mutable_data_ptr());
  return out;
}

}  // namespace kiln
