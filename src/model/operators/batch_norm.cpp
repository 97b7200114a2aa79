#include "model/operators/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
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

#include "base/system.h"
#include "model/operators/norm_loops.h"

namespace kiln {
namespace {

using In = const at::Tensor&;
using Maybe = const std::optional<at::Tensor>&;
using Two = std::tuple<at::Tensor, at::Tensor>;

// ---- the operators on CPUs ----

at::Tensor dense(In maps) {
  return maps.contiguous(at::MemoryFormat::ChannelsLast);
}

NormMaps maps_of(In x) {
  const MapType type = x.scalar_type() == at::kDouble     ? MapType::kFloat64
                       : x.scalar_type() == at::kBFloat16 ? MapType::kBfloat16
                                                          : MapType::kFloat32;
  return {.rows = x.size(0) * x.size(2) * x.size(3), .channels = x.size(1), .type = type};
}

NormChannels channels_of(In mean, In scale, In weight, In bias) {
  return {mean.const_data_ptr(), scale.const_data_ptr(), weight.const_data_ptr(),
          bias.const_data_ptr()};
}

Two norm_statistics(In x, Maybe running_mean, Maybe running_variance, double momentum,
                    double epsilon) {
  const auto options = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  at::Tensor mean = at::empty({x.size(1)}, options), scale = at::empty_like(mean);
  const auto writable = [](Maybe tensor) { return tensor ? tensor->mutable_data_ptr() : nullptr; };
  mean_and_scale(maps_of(x), dense(x).const_data_ptr(),
                 {mean.mutable_data_ptr(), scale.mutable_data_ptr(), writable(running_mean),
                  writable(running_variance), momentum, epsilon});
  return {mean, scale};
}

Two norm_apply(In x, Maybe added, In mean, In scale, In weight, In bias, std::int64_t activation) {
  at::Tensor y = at::empty_like(x, x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const auto which = static_cast<Activation>(activation);
  const bool has_bits = added && which == Activation::kRelu;
  at::Tensor bits =
      at::empty({has_bits ? static_cast<std::int64_t>(num_bit_bytes(maps_of(x))) : 0}, at::kByte);
  const at::Tensor dense_added = added ? dense(*added) : at::Tensor();
  normalize(maps_of(x), channels_of(mean, scale, weight, bias), which, dense(x).const_data_ptr(),
            added ? dense_added.const_data_ptr() : nullptr, y.mutable_data_ptr(),
            bits.mutable_data_ptr());
  return {y, bits};
}

Two norm_sums(In x, In dy, In bits, In mean, In scale, In weight, In bias,
              std::int64_t activation) {
  const bool has_bits = bits.numel() > 0;
  at::Tensor du = has_bits ? at::empty_like(dense(dy)) : at::empty({0}, dy.options());
  at::Tensor sums = at::empty({2, x.size(1)}, mean.options());
  gradient_sums(maps_of(x), channels_of(mean, scale, weight, bias),
                static_cast<Activation>(activation), dense(x).const_data_ptr(),
                dense(dy).const_data_ptr(), has_bits ? bits.const_data_ptr() : nullptr,
                du.mutable_data_ptr(), sums.mutable_data_ptr());
  return {du, sums};
}

at::Tensor norm_gradient(In x, In dy, Maybe means, In mean, In scale, In weight, In bias,
                         std::int64_t activation) {
  at::Tensor dx = at::empty_like(x, x.options().memory_format(at::MemoryFormat::ChannelsLast));
  input_gradient(maps_of(x), channels_of(mean, scale, weight, bias),
                 means ? means->const_data_ptr() : nullptr, static_cast<Activation>(activation),
                 dense(x).const_data_ptr(), dense(dy).const_data_ptr(), dx.mutable_data_ptr());
  return dx;
}

TORCH_LIBRARY_FRAGMENT(kiln, m) {
  m.def(
      "norm_statistics(Tensor x, Tensor(a!)? running_mean, Tensor(b!)? running_variance, "
      "float momentum, float epsilon) -> (Tensor mean, Tensor scale)");
  m.def(
      "norm_apply(Tensor x, Tensor? added, Tensor mean, Tensor scale, Tensor weight, Tensor bias, "
      "int activation) -> (Tensor y, Tensor bits)");
  m.def(
      "norm_sums(Tensor x, Tensor dy, Tensor bits, Tensor mean, Tensor scale, Tensor weight, "
      "Tensor bias, int activation) -> (Tensor du, Tensor sums)");
  m.def(
      "norm_gradient(Tensor x, Tensor dy, Tensor? means, Tensor mean, Tensor scale, "
      "Tensor weight, Tensor bias, int activation) -> Tensor");
}
TORCH_LIBRARY_IMPL(kiln, CPU, m) {
  m.impl("norm_statistics", norm_statistics);
  m.impl("norm_apply", norm_apply);
  m.impl("norm_sums", norm_sums);
  m.impl("norm_gradient", norm_gradient);
}

// ---- the function of autograd, for all devices ----

template <typename Function>
auto operator_named(const char* name, Function*) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

struct Operators {
  decltype(operator_named("", norm_statistics)) statistics =
      operator_named("kiln::norm_statistics", norm_statistics);
  decltype(operator_named("", norm_apply)) apply = operator_named("kiln::norm_apply", norm_apply);
  decltype(operator_named("", norm_sums)) sums = operator_named("kiln::norm_sums", norm_sums);
  decltype(operator_named("", norm_gradient)) gradient =
      operator_named("kiln::norm_gradient", norm_gradient);
};

const Operators& operators() {
  static const Operators found;
  return found;
}

bool is_wanted() {
  static const bool is_wanted = environment("KILN_FUSED_NORM") != "0";
  return is_wanted;
}

bool has_operators(In x, In weight) {
  const at::ScalarType type = x.scalar_type(), computed = weight.scalar_type();
  const bool fits = type == at::kDouble
                        ? computed == at::kDouble
                        : computed == at::kFloat && (type == at::kFloat || type == at::kBFloat16);
  return fits && operators().apply.hasComputedKernelForDispatchKey(
                     x.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
}

std::optional<at::Tensor> if_defined(In tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Wraps them so that autograd can keep them until backward.
struct KeptRanks : torch::CustomClassHolder, BatchRanks {
  explicit KeptRanks(const BatchRanks& kept) : BatchRanks(kept) {}
};

// Mean and scale of the batch of all ranks, and [1]: its numbers in a channel.
std::array<at::Tensor, 3> shared_statistics(In x, const NormParameters& of) {
  const std::int64_t channels = x.size(1);
  at::Tensor sums = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  if (x.numel() > 0) {
    const auto [mean, scale] = operators().statistics.call(x, {}, {}, 0, 0);
    const at::Tensor wide = mean.to(at::kDouble),
                     squares = scale.to(at::kDouble).pow(-2) + wide.square();
    const auto count = static_cast<double>(x.numel() / channels);
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
  static at::Tensor forward(torch::autograd::AutogradContext* context, In x, In weight, In bias,
                            Maybe added, const NormParameters& of, Activation activation) {
    at::Tensor mean, scale, count;
    if (!of.uses_batch) {
      mean = of.running.mean;
      scale = (of.running.variance + of.epsilon).rsqrt();
    } else if (of.ranks.sum) {
      const std::array<at::Tensor, 3> shared = shared_statistics(x, of);
      mean = shared[0], scale = shared[1], count = shared[2];
      context->saved_data["ranks"] =
          c10::IValue::make_capsule(c10::make_intrusive<KeptRanks>(of.ranks));
    } else {
      std::tie(mean, scale) = operators().statistics.call(x, if_defined(of.running.mean),
                                                          if_defined(of.running.variance),
                                                          of.running.momentum, of.epsilon);
    }
    const auto which = static_cast<std::int64_t>(activation);
    const auto [y, bits] = operators().apply.call(x, added, mean, scale, weight, bias, which);
    context->save_for_backward({x, weight, bias, mean, scale, bits, count});
    context->saved_data["activation"] = which;
    context->saved_data["uses_batch"] = of.uses_batch;
    context->saved_data["adds"] = added.has_value();
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3],
                     &scale = saved[4], &bits = saved[5], &count = saved[6];
    const at::Tensor dy = gradients[0].to(x.scalar_type());
    std::int64_t activation = context->saved_data["activation"].toInt();
    const bool uses_batch = context->saved_data["uses_batch"].toBool();
    at::Tensor du = dy, d_weight, d_bias;
    std::optional<at::Tensor> means;
    if (uses_batch || bits.numel() > 0 || context->needs_input_grad(1) ||
        context->needs_input_grad(2)) {
      auto [masked, sums] =
          operators().sums.call(x, dy, bits, mean, scale, weight, bias, activation);
      d_bias = sums.select(0, 0);
      d_weight = sums.select(0, 1) * scale;
      if (bits.numel() > 0) {
        du = masked;
        activation = static_cast<std::int64_t>(Activation::kNone);
      }
      if (uses_batch) means = means_of(context, x, sums, count);
    }
    at::Tensor dx;
    if (context->needs_input_grad(0))
      dx = operators().gradient.call(x, du, means, mean, scale, weight, bias, activation);
    const at::Tensor d_added = context->saved_data["adds"].toBool() ? du : at::Tensor();
    return {dx, d_weight, d_bias, d_added, {}, {}};
  }

 private:
  static at::Tensor means_of(torch::autograd::AutogradContext* context, In x, In sums, In count) {
    if (!count.defined()) return sums / static_cast<double>(x.numel() / x.size(1));
    const auto ranks =
        c10::static_intrusive_pointer_cast<KeptRanks>(context->saved_data["ranks"].toCapsule());
    at::Tensor all = sums.to(at::kDouble);
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
