#include "model/operators/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <type_traits>

#include "base/system.h"
#include "model/operators/norm_loops.h"

namespace kiln {
namespace {

using In = const at::Tensor&;
using Maybe = const std::optional<at::Tensor>&;
using Two = std::tuple<at::Tensor, at::Tensor>;

// ---- the operators on CPUs; maps are channels_last, `of` is mean, scale, weight, bias ----

NormMaps maps_of(In x) {
  const MapType type = x.scalar_type() == at::kDouble     ? MapType::kFloat64
                       : x.scalar_type() == at::kBFloat16 ? MapType::kBfloat16
                                                          : MapType::kFloat32;
  return {.rows = x.size(0) * x.size(2) * x.size(3), .channels = x.size(1), .type = type};
}

NormChannels channels_of(at::TensorList of) {
  return {of[0].const_data_ptr(), of[1].const_data_ptr(), of[2].const_data_ptr(),
          of[3].const_data_ptr()};
}

Two norm_statistics(In x, Maybe running_mean, Maybe running_variance, double momentum,
                    double epsilon) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor mean = at::empty({x.size(1)}, x.options().dtype(type)), scale = at::empty_like(mean);
  const auto writable = [](Maybe tensor) { return tensor ? tensor->mutable_data_ptr() : nullptr; };
  mean_and_scale(maps_of(x), x.const_data_ptr(),
                 {mean.mutable_data_ptr(), scale.mutable_data_ptr(), writable(running_mean),
                  writable(running_variance), momentum, epsilon});
  return {mean, scale};
}

Two norm_apply(In x, Maybe added, at::TensorList of, std::int64_t activation) {
  const bool has_bits = added && static_cast<Activation>(activation) == Activation::kRelu;
  const std::size_t size = has_bits ? num_bit_bytes(maps_of(x)) : 0;
  at::Tensor y = at::empty_like(x),
             bits = at::empty({static_cast<std::int64_t>(size)}, x.options().dtype(at::kByte));
  normalize(maps_of(x), channels_of(of), static_cast<Activation>(activation), x.const_data_ptr(),
            added ? added->const_data_ptr() : nullptr, y.mutable_data_ptr(),
            bits.mutable_data_ptr());
  return {y, bits};
}

Two norm_sums(In x, In dy, In bits, at::TensorList of, std::int64_t activation) {
  const bool has_bits = bits.numel() > 0;
  at::Tensor du = has_bits ? at::empty_like(dy) : at::empty({0}, dy.options()),
             sums = at::empty({2, x.size(1)}, of[0].options());
  gradient_sums(maps_of(x), channels_of(of), static_cast<Activation>(activation),
                x.const_data_ptr(), dy.const_data_ptr(), has_bits ? bits.const_data_ptr() : nullptr,
                du.mutable_data_ptr(), sums.mutable_data_ptr());
  return {du, sums};
}

at::Tensor norm_gradient(In x, In dy, Maybe means, at::TensorList of, std::int64_t activation) {
  at::Tensor dx = at::empty_like(x);
  input_gradient(maps_of(x), channels_of(of), means ? means->const_data_ptr() : nullptr,
                 static_cast<Activation>(activation), x.const_data_ptr(), dy.const_data_ptr(),
                 dx.mutable_data_ptr());
  return dx;
}

TORCH_LIBRARY_FRAGMENT(kiln, m) {
  m.def(
      "norm_statistics(Tensor x, Tensor(a!)? running_mean, Tensor(b!)? running_variance, "
      "float momentum, float epsilon) -> (Tensor mean, Tensor scale)");
  m.def("norm_apply(Tensor x, Tensor? added, Tensor[] of, int activation) -> (Tensor, Tensor)");
  m.def(
      "norm_sums(Tensor x, Tensor dy, Tensor bits, Tensor[] of, int activation)"
      " -> (Tensor du, Tensor sums)");
  m.def("norm_gradient(Tensor x, Tensor dy, Tensor? means, Tensor[] of, int activation) -> Tensor");
}
TORCH_LIBRARY_IMPL(kiln, CPU, m) {
  m.impl("norm_statistics", norm_statistics);
  m.impl("norm_apply", norm_apply);
  m.impl("norm_sums", norm_sums);
  m.impl("norm_gradient", norm_gradient);
}

// ---- the function of autograd, for all devices ----

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// The operator of this name, of the CPU's function's type, for the device of its arguments.
template <auto kFunction, typename... Arguments>
auto call(const char* name, const Arguments&... arguments) {
  static const auto kFound =
      operator_named(name).typed<std::remove_pointer_t<decltype(kFunction)>>();
  return kFound.call(arguments...);
}

// Without AVX-512 the loops are slower than LibTorch's.
bool is_wanted() {
  static const bool kIsWanted = environment("KILN_FUSED_NORM") != "0" && cpu_has("avx512bw");
  return kIsWanted;
}

bool has_operators(In x, In weight) {
  const at::ScalarType type = x.scalar_type();
  const bool fits =
      weight.scalar_type() == at::kDouble
          ? type == at::kDouble
          : weight.scalar_type() == at::kFloat && (type == at::kFloat || type == at::kBFloat16);
  static const c10::OperatorHandle kApply = operator_named("kiln::norm_apply");
  return fits && kApply.hasComputedKernelForDispatchKey(x.is_cuda() ? c10::DispatchKey::CUDA
                                                                    : c10::DispatchKey::CPU);
}

at::Tensor dense(In maps) {
  return maps.contiguous(at::MemoryFormat::ChannelsLast);
}

std::optional<at::Tensor> if_defined(In tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

double values_a_channel(In x) {
  return static_cast<double>(x.size(0) * x.size(2) * x.size(3));
}

// Wraps them so that autograd can keep them until backward.
struct KeptRanks : torch::CustomClassHolder, BatchRanks {
  explicit KeptRanks(const BatchRanks& kept) : BatchRanks(kept) {}
};

// Mean and scale of the batch of all ranks, and [1]: its numbers in a channel.
std::tuple<at::Tensor, at::Tensor, at::Tensor> shared_statistics(In x, const NormParameters& of) {
  const std::int64_t channels = x.size(1);
  at::Tensor sums = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  if (x.numel() > 0) {
    const auto [mean, scale] =
        call<&norm_statistics>("kiln::norm_statistics", x, std::nullopt, std::nullopt, 0., 0.);
    const at::Tensor wide = mean.to(at::kDouble),
                     squares = scale.to(at::kDouble).pow(-2) + wide.square();
    const auto count = values_a_channel(x);
    at::cat_out(sums, {wide * count, squares * count, at::full({1}, count, sums.options())});
  }
  of.ranks.sum(sums);
  const at::Tensor count = sums.narrow(0, 2 * channels, 1),
                   mean = sums.narrow(0, 0, channels) / count,
                   variance =
                       (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min(0);
  const auto move = [&](In running, In to) {  // else no rank has an image in this batch
    running.lerp_(at::where(count > 0, to.to(running.scalar_type()), running), of.running.momentum);
  };
  move(of.running.mean, mean);
  move(of.running.variance, variance * (count / (count - 1).clamp_min(1)));
  const at::ScalarType type = of.weight.scalar_type();
  return {mean.to(type), (variance + of.epsilon).rsqrt().to(type), count};
}

class FusedNorm : public torch::autograd::Function<FusedNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, In given, In weight, In bias,
                            Maybe added, const NormParameters& of, Activation activation) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor x = dense(given);
    at::Tensor mean = of.running.mean, scale, count;
    if (!of.uses_batch) {
      scale = (of.running.variance + of.epsilon).rsqrt();
    } else if (of.ranks.sum) {
      std::tie(mean, scale, count) = shared_statistics(x, of);
      context->saved_data["ranks"] =
          c10::IValue::make_capsule(c10::make_intrusive<KeptRanks>(of.ranks));
    } else {
      std::tie(mean, scale) =
          call<&norm_statistics>("kiln::norm_statistics", x, if_defined(mean),
                                 if_defined(of.running.variance), of.running.momentum, of.epsilon);
    }
    const auto which = static_cast<std::int64_t>(activation);
    const auto [y, bits] = call<&norm_apply>("kiln::norm_apply", x,
                                             added ? std::optional(dense(*added)) : std::nullopt,
                                             at::TensorList({mean, scale, weight, bias}), which);
    context->save_for_backward({x, mean, scale, weight, bias, bits, count});
    context->saved_data["activation"] = which;
    context->saved_data["uses_batch"] = of.uses_batch;
    context->saved_data["adds"] = added.has_value();
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &scale = saved[2], &bits = saved[5];
    const at::TensorList of = at::TensorList(saved).slice(1, 4);
    std::int64_t activation = context->saved_data["activation"].toInt();
    const bool uses_batch = context->saved_data["uses_batch"].toBool(), has_bits = bits.numel() > 0;
    at::Tensor du = dense(gradients[0].to(x.scalar_type())), dx, d_weight, d_bias;
    std::optional<at::Tensor> means;
    if (uses_batch || has_bits || context->needs_input_grad(1) || context->needs_input_grad(2)) {
      const auto [masked, sums] = call<&norm_sums>("kiln::norm_sums", x, du, bits, of, activation);
      d_bias = sums.select(0, 0);
      d_weight = sums.select(0, 1) * scale;
      if (has_bits) du = masked;
      if (uses_batch) means = means_of(context, x, sums, saved[6]);
    }
    if (has_bits) activation = static_cast<std::int64_t>(Activation::kNone);
    if (context->needs_input_grad(0))
      dx = call<&norm_gradient>("kiln::norm_gradient", x, du, means, of, activation);
    const at::Tensor d_added = context->saved_data["adds"].toBool() ? du : at::Tensor();
    return {dx, d_weight, d_bias, d_added, {}, {}};
  }

 private:
  static at::Tensor means_of(torch::autograd::AutogradContext* context, In x, In sums, In count) {
    if (!count.defined()) return sums / values_a_channel(x);
    const auto ranks =
        c10::static_intrusive_pointer_cast<KeptRanks>(context->saved_data["ranks"].toCapsule());
    at::Tensor all = sums.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    ranks->sum(all);
    return (all / count).to(sums.scalar_type());
  }
};

at::Tensor separate_norm(In x, const NormParameters& of, Activation activation, In added) {
  at::Tensor y;
  if (of.uses_batch && of.ranks.sum)
    y = sync_batch_norm(x, of.weight, of.bias, of.running, of.epsilon, of.ranks);
  else
    y = at::batch_norm(x, of.weight, of.bias, of.running.mean, of.running.variance, of.uses_batch,
                       of.running.momentum, of.epsilon, at::globalContext().userEnabledCuDNN());
  if (added.defined()) y.add_(added);
  return activated(std::move(y), activation);
}

}  // namespace

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

at::Tensor batch_norm(const at::Tensor& x, const NormParameters& of, Activation activation,
                      const at::Tensor& added) {
  const bool has_others = of.uses_batch && of.ranks.sum;
  const bool is_alone = x.is_cpu() && has_others;  // LibTorch has no other way
  if (!has_operators(x, of.weight) || !(is_wanted() || is_alone) || (x.numel() == 0 && !has_others))
    return separate_norm(x, of, activation, added);
  return FusedNorm::apply(x, of.weight, of.bias, if_defined(added), of, activation);
}

}  // namespace kiln
