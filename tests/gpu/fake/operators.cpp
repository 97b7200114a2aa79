// The operators: each runs the CPU's kernel on tensors of the CPU over the device's memory.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_reshape_alias_cpu_dispatch.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include "gpu/fake/device.h"
#include "modules/cuda/norm_kernels.h"

namespace kiln::fake {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);
constexpr std::int64_t kNoMatrixForCpus = 8192;

void note_kernel(const std::string& name) {
  note("operator", name);
  current_queue().drain();
}

at::Tensor on_cpu(const at::Tensor& there) {
  if (!there.defined() || !there.is_cuda()) return there;
  return at::from_blob(there.numel() == 0 ? nullptr : there.data_ptr(), there.sizes(),
                       there.strides(), there.options().device(at::kCPU).requires_grad(false));
}

at::Tensor on_device(const at::Tensor& host) {
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(current_device));
  take_bytes(host.storage().nbytes());
  auto* kept = new at::Tensor(host);
  const auto forget = [](void* context) {
    const std::unique_ptr<at::Tensor> done(static_cast<at::Tensor*>(context));
    give_bytes(done->storage().nbytes());
  };
  c10::DataPtr data(const_cast<void*>(host.storage().data()), kept, forget, device);
  c10::Storage storage(c10::Storage::use_byte_size_t(), host.storage().nbytes(), std::move(data),
                       &memory(), /*resizable=*/true);
  at::Tensor there =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), kKeys, host.dtype());
  there.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                     host.storage_offset());
  return there;
}

void take_memory(const at::Tensor& of, const at::Tensor& from) {
  of.unsafeGetTensorImpl()->set_storage_keep_dtype(from.storage());
  of.unsafeGetTensorImpl()->set_sizes_and_strides(from.sizes(), from.strides(),
                                                  from.storage_offset());
}

// The tensors of one call: those of the device, and what the CPU's kernel gets for them.
class Exchange {
 public:
  explicit Exchange(const c10::FunctionSchema& schema) : schema_(schema) {}

  c10::IValue to_cpu(const c10::IValue& value, bool is_written) {
    const auto one = [&](const at::Tensor& item) { return to_cpu(item, is_written); };
    if (value.isTensor()) return one(value.toTensor());
    if (value.isDevice()) return c10::Device(c10::kCPU);
    if (value.isTensorList()) return each<at::Tensor>(value.toTensorVector(), one);
    if (!value.isOptionalTensorList()) return value;
    using Maybe = std::optional<at::Tensor>;
    return each<Maybe>(value.toOptionalTensorVector(),
                       [&](const Maybe& item) { return item ? Maybe(one(*item)) : item; });
  }

  c10::IValue to_device(const c10::IValue& value) {
    const auto one = [&](const at::Tensor& item) { return to_device(item); };
    if (value.isTensor()) return one(value.toTensor());
    return value.isTensorList() ? each<at::Tensor>(value.toTensorVector(), one) : value;
  }

  // Gives outputs that were empty before the call the memory that the kernel has made.
  void keep_resized() {
    for (const auto& [host, there] : resized_)
      if (host.numel() > 0) take_memory(there, on_device(host));
  }

 private:
  template <typename Item, typename Change>
  static c10::List<Item> each(const std::vector<Item>& items, const Change& change) {
    c10::List<Item> list;
    for (const Item& item : items) list.push_back(change(item));
    return list;
  }

  at::Tensor to_cpu(const at::Tensor& there, bool is_written) {
    if (!there.defined()) return there;
    // Numbers may be on the CPU, and so may indices. All else is a fault on a real device.
    TORCH_CHECK(
        there.is_cuda() || there.dim() == 0 || schema_.name().find("index") != std::string::npos,
        "Expected all tensors to be on the same device, but one is on the CPU: ", schema_.name());
    if (!there.is_cuda()) return there;
    const bool is_resized = is_written && there.numel() == 0;
    const at::Tensor host =
        is_resized ? at::empty({0}, there.options().device(at::kCPU).requires_grad(false))
                   : on_cpu(there);
    if (is_resized) resized_.emplace_back(host, there);
    both_.emplace_back(host, there);
    return host;
  }

  at::Tensor to_device(const at::Tensor& host) {
    if (!host.defined()) return host;
    for (const auto& [cpu, there] : both_)
      if (cpu.is_same(host)) return there;
    return on_device(host);
  }

  const c10::FunctionSchema& schema_;
  std::vector<std::pair<at::Tensor, at::Tensor>> both_, resized_;  // the CPU's, the device's
};

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& overload = schema.overload_name();
  note_kernel(schema.name() + (overload.empty() ? "" : "." + overload));
  if (schema.name().starts_with("aten::convolution"))
    note("algorithm", at::globalContext().benchmarkCuDNN() ? "measured" : "guessed");
  Exchange exchange(schema);
  const std::size_t begin = stack->size() - schema.arguments().size();
  // Would take a CPU a minute. `kiln_bench step` times it and uses no number of it.
  if (schema.name() == "aten::mm" && (*stack)[begin].toTensor().size(0) >= kNoMatrixForCpus) {
    stack->erase(stack->end() - 3, stack->end() - 1);  // the output is the last argument
    return;
  }
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    c10::IValue& value = (*stack)[begin + i];
    value = exchange.to_cpu(value, alias != nullptr && alias->isWrite());
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  exchange.keep_resized();
  for (std::size_t i = begin; i < stack->size(); ++i) (*stack)[i] = exchange.to_device((*stack)[i]);
}

using Sizes = at::IntArrayRef;
using In = const at::Tensor&;
using Maybe = const std::optional<at::Tensor>&;
using Type = std::optional<at::ScalarType>;
using Place = std::optional<at::Device>;
using Layout = std::optional<at::Layout>;

at::Tensor empty(Sizes size, Type type, Layout, Place device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_generic(size, &memory(), kKeys, c10::dtype_or_default(type), format);
}
at::Tensor empty_strided(Sizes size, Sizes stride, Type type, Layout, Place device,
                         std::optional<bool>) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_strided_generic(size, stride, &memory(), kKeys,
                                           c10::dtype_or_default(type));
}
In resize(In self, Sizes size, std::optional<at::MemoryFormat>) {
  if (self.sizes() != size)
    take_memory(self, empty(size, self.scalar_type(), {}, self.device(), {}, {}));
  return self;
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  at::Tensor target = on_cpu(to);
  const at::Tensor source = on_cpu(from);
  if (to.is_cuda() && from.is_cuda()) {
    note_kernel("aten::copy_");
    target.copy_(source);
    return to;
  }
  const bool is_upload = to.is_cuda();
  const bool is_pinned_copy = is_pinned((is_upload ? from : to).const_data_ptr());
  const std::string what =
      (is_pinned_copy ? "pinned " : "pageable ") + std::string(c10::toString(to.scalar_type()));
  note(is_upload ? "upload" : "download", what);
  // Like a kernel, it keeps no reference to the device's memory.
  const auto task = [target, source]() mutable {
    const c10::InferenceMode any_tensor;
    target.copy_(source);
  };
  static const long delay_us = setting("COPY_US", 3000);
  current_queue().push(task, non_blocking && is_pinned_copy ? delay_us : 0);
  if (non_blocking && is_pinned_copy) return to;
  // CUDA stages pageable bytes before it returns from an upload that need not wait.
  if (!non_blocking || !is_upload) note("wait", is_upload ? "upload" : "download");
  current_queue().drain();
  return to;
}

at::Scalar local_scalar(const at::Tensor& self) {
  note("wait", "item");
  current_queue().drain();
  return on_cpu(self).item();
}
void record_stream(at::Tensor&, c10::Stream) {}

// ---- synchronized BatchNorm: the operators that only CUDA has ----

at::Tensor channel(In values) {
  return on_cpu(values).view({1, -1, 1, 1});
}
// Sums and statistics of short types are made in float32.
at::Tensor wide(In x) {
  const at::Tensor host = on_cpu(x);
  return host.scalar_type() == at::kDouble ? host : host.to(at::kFloat);
}

std::tuple<at::Tensor, at::Tensor> batch_norm_stats(In x, double epsilon) {
  note_kernel("aten::batch_norm_stats");
  const auto [variance, mean] = at::var_mean(wide(x), {0, 2, 3}, at::Scalar(0));
  return {on_device(mean), on_device((variance + epsilon).rsqrt())};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_gather(In, In means, In scales, Maybe running_mean,
                                                     Maybe running_var, double momentum,
                                                     double epsilon, In counts) {
  note_kernel("aten::batch_norm_gather_stats_with_counts");
  const at::Tensor each = on_cpu(counts).unsqueeze(1), all = on_cpu(means);
  TORCH_CHECK(each.gt(0).all().item<bool>(), "CUDA's kernel makes NaN of a count of 0");
  const at::Tensor count = each.sum(), mean = (all * each).sum(0) / count;
  const at::Tensor variances = on_cpu(scales).reciprocal().square() - epsilon;
  const at::Tensor squares = ((variances + (all - mean).square()) * each).sum(0);
  on_cpu(*running_mean).lerp_(mean, momentum);
  on_cpu(*running_var).lerp_(squares / (count - 1), momentum);
  return {on_device(mean), on_device((squares / count + epsilon).rsqrt())};
}

at::Tensor batch_norm_elemt(In x, Maybe weight, Maybe bias, In mean, In scale, double) {
  note_kernel("aten::batch_norm_elemt");
  const at::Tensor y =
      (wide(x) - channel(mean)) * channel(scale) * channel(*weight) + channel(*bias);
  return on_device(y.to(x.scalar_type()));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reduce(
    In dy, In x, In mean, In scale, Maybe, bool, bool, bool) {
  note_kernel("aten::batch_norm_backward_reduce");
  const at::Tensor sum = wide(dy).sum({0, 2, 3});
  const at::Tensor product = (wide(dy) * (wide(x) - channel(mean))).sum({0, 2, 3});
  return {on_device(sum), on_device(product), on_device(product * on_cpu(scale)),
          on_device(sum.clone())};
}

at::Tensor batch_norm_backward_elemt(In dy, In x, In mean, In scale, Maybe weight, In sum,
                                     In product, In counts) {
  note_kernel("aten::batch_norm_backward_elemt");
  const double total = on_cpu(counts).sum().item<double>();
  const at::Tensor spread = (wide(x) - channel(mean)) * channel(scale).square();
  const at::Tensor dx = (wide(dy) - channel(sum) / total - spread * channel(product) / total) *
                        channel(scale) * channel(*weight);
  return on_device(dx.to(x.scalar_type()));
}

// Where a real device has a kernel of its own and other devices take the operator apart.
bool is_one_kernel(const std::string& name) {
  return name.starts_with("aten::_foreach_") || name == "aten::convolution" ||
         name == "aten::convolution_backward";
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames())
    if (is_one_kernel(op.name))
      m.impl(toString(op).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::cpu::as_strided);
  m.impl("view", at::cpu::view);
  m.impl("_reshape_alias", at::cpu::_reshape_alias);
  m.impl("resize_", resize);
  m.impl("copy_", copy);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("record_stream", record_stream);
  m.impl("batch_norm_stats", batch_norm_stats);
  m.impl("batch_norm_gather_stats_with_counts", batch_norm_gather);
  m.impl("batch_norm_elemt", batch_norm_elemt);
  m.impl("batch_norm_backward_reduce", batch_norm_backward_reduce);
  m.impl("batch_norm_backward_elemt", batch_norm_backward_elemt);
}

}  // namespace
}  // namespace kiln::fake

// ---- the kernels that Kiln brings ----

extern "C" void kiln_emulate_norm(const char* kernel, const kiln::NormGrid* grid,
                                  const kiln::NormArguments* given, unsigned seed);

namespace kiln {

void launch_norm(const char* kernel, const NormGrid& grid, NormArguments arguments) {
  fake::note_kernel(kernel);
  kiln_emulate_norm(kernel, &grid, &arguments, /*seed=*/1);
}

unsigned num_multiprocessors() {
  return 1;
}

}  // namespace kiln
