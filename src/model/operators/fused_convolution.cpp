#include "model/operators/fused_convolution.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/silu.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/platform/installation.h"
#include "base/system.h"
#include "model/operators/autocast.h"
#include "model/operators/joined_maps.h"

namespace kiln {
namespace {

// Numbers of images that come in turn, as to a server; more are prepared anew.
constexpr std::size_t kMaxPrepared = 8;

const OnednnModule& onednn() {
  static const OnednnModule& module = open_module<OnednnModule>(
      "libkiln_onednn.so", kOnednnModuleSymbol, kOnednnModuleVersion, "Install Kiln again.");
  return module;
}

// Of an operation that keeps the number of channels, with nothing after it.
PreparedShape shape_of(const at::Tensor& x, std::int64_t kernel, std::int64_t stride) {
  return {.images = x.size(0),
          .in_channels = x.size(1),
          .height = x.size(2),
          .width = x.size(3),
          .out_channels = x.size(1),
          .kernel = kernel,
          .stride = stride,
          .padding = padding_of(kernel),
          .groups = 1,
          .is_bfloat16 = x.scalar_type() == c10::kBFloat16,
          .adds = false,
          .activation = Activation::kNone};
}

// `out`: what is overwritten, or undefined. Profilers see it as they see LibTorch's operators.
at::Tensor result_of(Prepared& prepared, const PreparedShape& shape, const char* name,
                     const at::Tensor& maps, const at::Tensor& weight, at::Tensor out) {
  const at::Tensor x = maps.contiguous(at::MemoryFormat::ChannelsLast);
  out = out.defined() ? out.contiguous(at::MemoryFormat::ChannelsLast)
                      : at::empty({shape.images, shape.out_channels, shape.outputs(shape.height),
                                   shape.outputs(shape.width)},
                                  x.options().memory_format(at::MemoryFormat::ChannelsLast));
  at::RecordFunction seen(at::RecordScope::FUNCTION);
  const std::array<c10::IValue, 2> inputs{x, weight};
  if (seen.isActive())
    seen.before(name, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
  prepared.run(x.const_data_ptr(), out.mutable_data_ptr());
  if (seen.isActive()) seen.setOutputs(std::vector<c10::IValue>(1, out));
  return out;
}

}  // namespace

bool can_fuse(const at::Tensor& x) {
  return x.is_cpu() && Autocast::type_on(c10::kCPU) == c10::kFloat &&
         c10::InferenceMode::is_enabled() && at::globalContext().userEnabledMkldnn() &&
         (x.scalar_type() == c10::kFloat ||
          (x.scalar_type() == c10::kBFloat16 && cpu_has("avx512bw")));
}

at::Tensor fusable(const at::Tensor& x) {
  if (!x.is_cpu() || !c10::InferenceMode::is_enabled()) return {};
  const at::Tensor input = x.to(Autocast::type_on(c10::kCPU));
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::DispatchKey::AutocastCPU);
  return can_fuse(input) ? input : at::Tensor();
}

at::Tensor activated(at::Tensor x, Activation activation) {
  const bool keeps = at::GradMode::is_enabled();  // the input, for backward
  switch (activation) {
    case Activation::kRelu:
      return x.relu_();
    case Activation::kHardswish:
      return keeps ? at::hardswish(x) : at::hardswish_(x);
    case Activation::kSilu:
      return keeps ? at::silu(x) : at::silu_(x);
    case Activation::kNone:
      break;
  }
  return x;
}

FusedConvolution::FusedConvolution(const at::Tensor& weight, const at::Tensor& bias,
                                   std::int64_t stride, std::int64_t groups)
    : weight_(weight.detach()), bias_(bias), stride_(stride), groups_(groups) {}

Prepared* PreparedShapes::of(const PreparedShape& shape, const Make& make) {
  const auto found = std::ranges::find(shapes_, shape) - shapes_.begin();
  if (found < std::ssize(shapes_)) {
    std::rotate(shapes_.begin() + found, shapes_.begin() + found + 1, shapes_.end());
    std::rotate(prepared_.begin() + found, prepared_.begin() + found + 1, prepared_.end());
    return prepared_.back().get();
  }
  at::get_num_threads();  // gives a new thread LibTorch's number of threads, which oneDNN takes
  PreparedPointer made = make(prepared_);
  if (shapes_.size() == kMaxPrepared) {
    shapes_.erase(shapes_.begin());
    prepared_.erase(prepared_.begin());
  }
  shapes_.push_back(shape);
  prepared_.push_back(std::move(made));
  return prepared_.back().get();
}

at::Tensor FusedConvolution::forward(const at::Tensor& x, Activation activation,
                                     const at::Tensor& added) {
  PreparedShape shape = shape_of(x, weight_.size(2), stride_);
  shape.out_channels = weight_.size(0);
  shape.groups = groups_;
  shape.adds = added.defined();
  shape.activation = activation;
  Prepared* prepared = shapes_.of(shape, [&](const std::vector<PreparedPointer>& others) {
    return onednn().convolution(shape, weight_.contiguous().const_data_ptr<float>(),
                                bias_.defined() ? bias_.const_data_ptr<float>() : nullptr, others);
  });
  if (prepared != nullptr)
    return result_of(*prepared, shape, "kiln::prepared_convolution", x, weight_, added);
  at::Tensor out = at::conv2d(x, weight_.to(x.scalar_type()),
                              bias_.defined() ? bias_.to(x.scalar_type()) : bias_, stride_,
                              shape.padding, /*dilation=*/1, groups_);
  if (added.defined()) out.add_(added);
  return activated(std::move(out), activation);
}

at::Tensor FusedMaxPool::forward(const at::Tensor& x) {
  const PreparedShape shape = shape_of(x, /*kernel=*/3, /*stride=*/2);
  Prepared* prepared = shapes_.of(shape, [&](const auto&) { return onednn().max_pool(shape); });
  return prepared == nullptr ? at::max_pool2d(x, 3, 2, 1)
                             : result_of(*prepared, shape, "kiln::prepared_max_pool", x, {}, {});
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
