#include "model/operators/fused_norm.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "model/operators/shared_statistics.h"

namespace kiln {
namespace {

using In = const at::Tensor&;
using Maybe = const std::optional<at::Tensor>&;
using Two = std::tuple<at::Tensor, at::Tensor>;

// `of`: mean, scale, weight, bias. `bits`: empty but with an addition and a ReLU; then norm_sums
// also returns the gradient after them, `du`, and norm_gradient takes that as `dy`. `sums`, [3, C],
// over `count` numbers of a channel: the gradient of bias, a product, the gradient of weight;
// norm_gradient takes the first two, or none where mean and scale are fixed.
TORCH_LIBRARY_FRAGMENT(kiln, m) {
  m.def(
      "norm_statistics(Tensor x, Tensor(a!)? running_mean, Tensor(b!)? running_variance, "
      "float momentum, float epsilon) -> (Tensor mean, Tensor scale)");
  m.def(
      "norm_apply(Tensor x, Tensor? added, Tensor[] of, bool has_relu) -> (Tensor y, Tensor bits)");
  m.def(
      "norm_sums(Tensor x, Tensor dy, Tensor bits, Tensor[] of, bool has_relu)"
      " -> (Tensor du, Tensor sums)");
  m.def(
      "norm_gradient(Tensor x, Tensor dy, Tensor? sums, float count, Tensor[] of, bool has_relu)"
      " -> Tensor");
}

template <typename Function>
c10::TypedOperatorHandle<Function> operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

Two norm_statistics(In x, Maybe running_mean, Maybe running_variance, double momentum,
                    double epsilon) {
  static const auto kOperator =
      operator_named<Two(In, Maybe, Maybe, double, double)>("kiln::norm_statistics");
  return kOperator.call(x, running_mean, running_variance, momentum, epsilon);
}

Two norm_apply(In x, Maybe added, at::TensorList of, bool has_relu) {
  static const auto kOperator =
      operator_named<Two(In, Maybe, at::TensorList, bool)>("kiln::norm_apply");
  return kOperator.call(x, added, of, has_relu);
}

Two norm_sums(In x, In dy, In bits, at::TensorList of, bool has_relu) {
  static const auto kOperator =
      operator_named<Two(In, In, In, at::TensorList, bool)>("kiln::norm_sums");
  return kOperator.call(x, dy, bits, of, has_relu);
}

at::Tensor norm_gradient(In x, In dy, Maybe sums, double count, at::TensorList of, bool has_relu) {
  static const auto kOperator =
      operator_named<at::Tensor(In, In, Maybe, double, at::TensorList, bool)>(
          "kiln::norm_gradient");
  return kOperator.call(x, dy, sums, count, of, has_relu);
}

// As the kernels want it.
at::Tensor aligned(In map, at::ScalarType type) {
  constexpr std::uintptr_t kBytes = 16;
  const at::Tensor dense = map.to(type).contiguous(at::MemoryFormat::ChannelsLast);
  return reinterpret_cast<std::uintptr_t>(dense.const_data_ptr()) % kBytes == 0 ? dense
                                                                                : dense.clone();
}

// Mean and scale of the batch of all ranks, and [1]: its numbers in a channel.
std::tuple<at::Tensor, at::Tensor, at::Tensor> shared_statistics(In x, const NormParameters& of) {
  at::Tensor sums = at::zeros({2 * x.size(1) + 1}, x.options().dtype(at::kDouble));
  if (x.numel() > 0) {
    const auto [mean, scale] = norm_statistics(x, std::nullopt, std::nullopt, 0, /*epsilon=*/0);
    sums = sums_of(mean.to(at::kDouble), scale.to(at::kDouble).pow(-2), values_a_channel(x));
  }
  of.ranks.sum(sums);
  const auto [mean, variance, count, unbiased] = statistics_of(sums);
  const at::Tensor has_images = count > 0;  // some rank has, in this batch
  const auto move = [&](In running, In to) {
    running.lerp_(at::where(has_images, to.to(running.scalar_type()), running),
                  of.running.momentum);
  };
  move(of.running.mean, mean);
  move(of.running.variance, unbiased);
  const at::ScalarType type = of.weight.scalar_type();
  return {mean.to(type), (variance + of.epsilon).rsqrt().to(type), count};
}

// What backward needs beside tensors.
struct KeptNorm : torch::CustomClassHolder {
  KeptNorm(const NormParameters& norm, bool rectifies) : of(norm), has_relu(rectifies) {}
  NormParameters of;
  bool has_relu;
};
using KeptNormPointer = c10::intrusive_ptr<KeptNorm>;

class FusedNorm : public torch::autograd::Function<FusedNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, In given, In weight, In bias,
                            Maybe added, const KeptNormPointer& kept) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const NormParameters& of = kept->of;
    const at::Tensor x = aligned(given, given.scalar_type());
    at::Tensor mean = of.running.mean, scale, count;
    if (!of.uses_batch)
      scale = (of.running.variance + of.epsilon).rsqrt();
    else if (of.ranks.sum)
      std::tie(mean, scale, count) = shared_statistics(x, of);
    else
      std::tie(mean, scale) =
          norm_statistics(x, mean, of.running.variance, of.running.momentum, of.epsilon);
    const auto [y, bits] =
        norm_apply(x, added ? std::optional(aligned(*added, x.scalar_type())) : std::nullopt,
                   {mean, scale, weight, bias}, kept->has_relu);
    context->save_for_backward({x, mean, scale, weight, bias, bits, count});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->saved_data["adds"] = added.has_value();
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto kept =
        c10::static_intrusive_pointer_cast<KeptNorm>(context->saved_data["kept"].toCapsule());
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &bits = saved[5], &count = saved[6];
    const at::TensorList of = at::TensorList(saved).slice(1, 4);
    const bool uses_batch = kept->of.uses_batch, has_bits = bits.numel() > 0;
    at::Tensor du = aligned(gradients[0], x.scalar_type()), d_x, d_weight, d_bias;
    std::optional<at::Tensor> sums;
    if (uses_batch || has_bits || context->needs_input_grad(1) || context->needs_input_grad(2)) {
      at::Tensor masked = du, all = at::zeros({3, x.size(1)}, of[0].options());
      if (x.numel() > 0) std::tie(masked, all) = norm_sums(x, du, bits, of, kept->has_relu);
      d_bias = all[0];
      d_weight = all[2];
      if (has_bits) du = masked;
      if (uses_batch) sums = count.defined() ? shared_means(*kept, all, count) : all;
    }
    if (context->needs_input_grad(0))
      d_x = norm_gradient(x, du, sums, count.defined() ? 1 : values_a_channel(x), of,
                          kept->has_relu && !has_bits);
    const at::Tensor d_added = context->saved_data["adds"].toBool() ? du : at::Tensor();
    return {d_x, d_weight, d_bias, d_added, {}};
  }

 private:
  static at::Tensor shared_means(const KeptNorm& kept, In sums, In count) {
    at::Tensor all = sums.narrow(0, 0, 2).to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    kept.of.ranks.sum(all);
    return (all / count).to(sums.scalar_type());
  }
};

// Of all that follows from a small map by one of both ways: y, the gradients, running statistics.
std::vector<at::Tensor> small_norm(const at::TensorOptions& maps, bool is_fused, bool uses_batch,
                                   bool adds, bool has_relu) {
  const at::AutoGradMode with_gradients(true);
  const std::int64_t images = 4, side = 12, channels = 64;
  const at::TensorOptions wide = maps.dtype(at::kFloat);
  const auto map = [&](double step) {
    const at::Tensor made = at::arange(images * side * side * channels, at::kDouble)
                                .mul(step)
                                .sin()
                                .view({images, side, side, channels})
                                .permute({0, 3, 1, 2})
                                .to(maps);
    return made.to(is_fused ? maps : wide).requires_grad_();
  };
  const auto numbers = [&](double value) { return at::full({channels}, value, wide); };
  const at::Tensor x = map(0.7), added = adds ? map(1.3) : at::Tensor();
  const NormParameters of{.weight = numbers(1.25).requires_grad_(),
                          .bias = numbers(0.125).requires_grad_(),
                          .running = {numbers(0.25), numbers(0.75), /*momentum=*/0.1},
                          .epsilon = 1e-5,
                          .uses_batch = uses_batch,
                          .ranks = {}};
  at::Tensor y;
  if (is_fused) {
    y = fused_norm(x, of, has_relu, added);
  } else {
    y = at::batch_norm(x, of.weight, of.bias, of.running.mean, of.running.variance, uses_batch,
                       of.running.momentum, of.epsilon, at::globalContext().userEnabledCuDNN());
    if (adds) y = y + added;
    if (has_relu) y = y.relu();
  }
  y.backward(map(0.4).detach());
  std::vector<at::Tensor> all{y.detach(),     x.grad(),        of.weight.grad(),
                              of.bias.grad(), of.running.mean, of.running.variance};
  if (adds) all.push_back(added.grad());
  return all;
}

// But for rounding to `type`; also false if it is not a number.
bool is_close(In found, In right, at::ScalarType type) {
  const double rounding = type == at::kHalf ? 0x1p-10 : type == at::kBFloat16 ? 0x1p-7 : 1e-5;
  const at::Tensor exact = right.to(at::kDouble);
  return (found.to(at::kDouble) - exact).abs().max().item<double>() <=
         rounding * exact.abs().max().item<double>();
}

}  // namespace

bool can_fuse_norm(const at::Tensor& x, const NormParameters& of) {
  const at::ScalarType type = x.scalar_type(), wide = of.weight.scalar_type();
  const bool has_kernels =
      wide == at::kDouble ? type == at::kDouble
                          : wide == at::kFloat &&
                                (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
  return x.is_cuda() && x.dim() == 4 && has_kernels && x.size(1) * x.element_size() % 16 == 0 &&
         (x.numel() > 0 || (of.uses_batch && of.ranks.sum));
}

at::Tensor fused_norm(const at::Tensor& x, const NormParameters& of, bool has_relu,
                      const at::Tensor& added) {
  return FusedNorm::apply(x, of.weight, of.bias,
                          added.defined() ? std::optional(added) : std::nullopt,
                          c10::make_intrusive<KeptNorm>(of, has_relu));
}

std::string fused_norm_fault(const at::Device& device, at::ScalarType type) {
  const at::TensorOptions maps = at::device(device).dtype(type);
  try {
    for (unsigned kind = 0; kind < 8; ++kind) {
      const bool uses_batch = (kind & 1) == 0, adds = (kind & 2) != 0, has_relu = (kind & 4) != 0;
      const auto found = small_norm(maps, true, uses_batch, adds, has_relu);
      const auto right = small_norm(maps, false, uses_batch, adds, has_relu);
      for (std::size_t i = 0; i < found.size(); ++i)
        if (!is_close(found[i], right[i], type)) return "their numbers are not LibTorch's";
    }
  } catch (const c10::Error& fault) {
    const std::string words = fault.what_without_backtrace();
    return words.substr(0, words.find('\n'));
  }
  return "";
}

}  // namespace kiln
