#include "model/fused_convolution.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <vector>

#include "model/image_model.h"
#include "model/joined_maps.h"

namespace kiln {
namespace {

using Operator = std::optional<c10::OperatorHandle>;
using Values = std::vector<c10::IValue>;  // arguments in the schema's order, then the result

Operator operator_named(const char* name, const char* overload = "") {
  Operator found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (found && !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) found.reset();
  return found;
}

struct Operators {
  Operator pack = operator_named("mkldnn::_reorder_convolution_weight");
  Operator convolve = operator_named("mkldnn::_convolution_pointwise");
  Operator convolve_and_add = operator_named("mkldnn::_convolution_pointwise_", "binary");
  bool all = pack && convolve && convolve_and_add;
};

const Operators& operators() {
  static const Operators found;
  return found;
}

at::Tensor result_of(const Operator& called, Values values) {
  called->callBoxed(values);
  return std::move(values.front()).toTensor();
}

using Sides = std::vector<std::int64_t>;
Sides both(std::int64_t side) {
  return {side, side};
}

}  // namespace

bool can_fuse(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == c10::kFloat && c10::InferenceMode::is_enabled() &&
         Autocast::type_on(c10::kCPU) == c10::kFloat && at::globalContext().userEnabledMkldnn() &&
         operators().all;
}

FusedConvolution::FusedConvolution(const at::Tensor& weight, const at::Tensor& bias,
                                   std::int64_t stride, std::int64_t groups)
    : weight_(weight.detach()), bias_(bias), stride_(stride), groups_(groups) {}

void FusedConvolution::pack_for(const at::Tensor& x) {
  if (packed_weight_.defined() && height_ == x.size(2) && width_ == x.size(3)) return;
  packed_weight_ = result_of(operators().pack, {weight_, both(weight_.size(2) / 2), both(stride_),
                                                both(1), groups_, x.sizes().vec()});
  height_ = x.size(2);
  width_ = x.size(3);
}

at::Tensor FusedConvolution::forward(const at::Tensor& x, bool relu, const at::Tensor& added) {
  pack_for(x);
  const c10::IValue none;
  const c10::IValue bias = bias_.defined() ? bias_ : none;
  const Sides padding = both(weight_.size(2) / 2), stride = both(stride_), dilation = both(1);
  const c10::List<std::optional<at::Scalar>> no_scalars;
  if (!added.defined())
    return result_of(operators().convolve, {x, packed_weight_, bias, padding, stride, dilation,
                                            groups_, relu ? "relu" : "none", no_scalars, none});
  return result_of(operators().convolve_and_add,
                   {added, x, packed_weight_, bias, padding, stride, dilation, groups_, "add", none,
                    relu ? c10::IValue("relu") : none, no_scalars, none});
}

at::Tensor joined_relu(const std::vector<at::Tensor>& maps, const at::Tensor& scale,
                       const at::Tensor& shift, int side) {
  std::vector<at::Tensor> dense;
  std::vector<Maps> all;
  for (const at::Tensor& one : maps) {
    dense.push_back(one.contiguous(at::MemoryFormat::ChannelsLast));
    all.push_back({dense.back().const_data_ptr<float>(), one.size(1)});
  }
  const at::Tensor& first = dense.front();
  at::Tensor out =
      at::empty({first.size(0), scale.size(0), first.size(2) / side, first.size(3) / side},
                first.options().memory_format(at::MemoryFormat::ChannelsLast));
  joined_relu(all, {first.size(0), first.size(2), first.size(3)}, scale.const_data_ptr<float>(),
              shift.const_data_ptr<float>(), side, out.mutable_data_ptr<float>());
  return out;
}

}  // namespace kiln
