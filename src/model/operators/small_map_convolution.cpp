#include "model/operators/small_map_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "model/operators/autocast.h"

namespace kiln {
namespace {

// Measured (docs/performance.md): with 16, float32 gains 1 to 3 %, and bfloat16 loses a fifth.
constexpr std::int64_t kMostPixels = 4;

// One axis of a convolution.
struct Axis {
  std::int64_t size, kernel, stride, padding;

  std::int64_t outputs() const { return (size + 2 * padding - kernel) / stride + 1; }
  // What an output reads: `length` pixels from `pixel` on, by as many taps from `tap` on.
  struct Window {
    std::int64_t pixel, tap, length;
  };
  Window window(std::int64_t output) const {
    const std::int64_t begin = output * stride - padding, pixel = std::max<std::int64_t>(begin, 0);
    return {pixel, pixel - begin, std::min(begin + kernel, size) - pixel};
  }
  // The taps that windows have: the last window begins with the first of them.
  std::int64_t first_tap() const { return window(outputs() - 1).tap; }
  std::int64_t num_taps() const { return window(0).tap + window(0).length - first_tap(); }
};

struct Axes {
  Axis rows, columns;

  Axes(const at::Tensor& x, const at::Tensor& weight, const ConvSteps& steps)
      : rows{x.size(2), weight.size(2), steps.stride, steps.padding},
        columns{x.size(3), weight.size(3), steps.stride, steps.padding} {}
  at::Tensor taps_of(const at::Tensor& weight) const {
    return weight.narrow(2, rows.first_tap(), rows.num_taps())
        .narrow(3, columns.first_tap(), columns.num_taps());
  }
};

// `count` neighbors in a row of each map, or of each kernel, as the rows of a matrix:
// [N, count * C], a view.
at::Tensor matrix(const at::Tensor& maps, std::int64_t row, std::int64_t column,
                  std::int64_t count) {
  return maps.as_strided({maps.size(0), count * maps.size(1)}, {maps.stride(0), 1},
                         maps.storage_offset() + row * maps.stride(2) + column * maps.stride(3));
}

struct Product {
  at::Tensor y, x, taps;  // y += x * taps^T
};

// Of a convolution of channels_last maps, and of their gradients likewise.
std::vector<Product> products(const Axes& axes, const at::Tensor& y, const at::Tensor& x,
                              const at::Tensor& taps) {
  std::vector<Product> all;
  for (std::int64_t i = 0; i < y.size(2); ++i)
    for (std::int64_t j = 0; j < y.size(3); ++j) {
      const Axis::Window rows = axes.rows.window(i), columns = axes.columns.window(j);
      for (std::int64_t row = 0; row < rows.length; ++row)
        all.push_back({matrix(y, i, j, 1),
                       matrix(x, rows.pixel + row, columns.pixel, columns.length),
                       matrix(taps, rows.tap + row - axes.rows.first_tap(),
                              columns.tap - axes.columns.first_tap(), columns.length)});
    }
  return all;
}

class SmallMapConvolution : public torch::autograd::Function<SmallMapConvolution> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& weight, std::int64_t stride, std::int64_t padding) {
    const c10::ScalarType type = Autocast::type_on(c10::kCPU, weight.scalar_type());
    const Axes axes(images, weight, {stride, padding});
    const at::Tensor x = images.to(type).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor taps = axes.taps_of(weight).to(type);
    at::Tensor y =
        at::empty({x.size(0), weight.size(0), axes.rows.outputs(), axes.columns.outputs()},
                  x.options().memory_format(at::MemoryFormat::ChannelsLast))
            .zero_();
    for (Product& product : products(axes, y, x, taps))
      product.y.addmm_(product.x, product.taps.t());
    context->save_for_backward({x, taps, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &taps = saved[1], &weight = saved[2];
    const Axes axes(
        x, weight, {context->saved_data["stride"].toInt(), context->saved_data["padding"].toInt()});
    const at::Tensor dy =
        gradients[0].to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor dx, dweight;
    if (context->needs_input_grad(0)) {
      dx = at::zeros_like(x);
      for (Product& product : products(axes, dy, dx, taps))
        product.x.addmm_(product.y, product.taps);
    }
    if (context->needs_input_grad(1)) {
      dweight = at::zeros_like(weight);
      const at::Tensor whole = axes.taps_of(dweight);
      const at::Tensor dtaps =
          taps.scalar_type() == weight.scalar_type() ? whole : at::zeros_like(taps);
      for (Product& product : products(axes, dy, x, dtaps))
        product.taps.addmm_(product.y.t(), product.x);
      if (!dtaps.is_same(whole)) whole.copy_(dtaps);
    }
    return {dx, dweight, {}, {}};
  }
};

}  // namespace

bool is_small_map(const at::Tensor& x, const at::Tensor& weight, const ConvSteps& steps) {
  if (!x.is_cpu() || x.size(0) == 0 || weight.size(1) != x.size(1) ||
      !weight.is_contiguous(at::MemoryFormat::ChannelsLast))
    return false;
  const Axes axes(x, weight, steps);
  return axes.rows.outputs() * axes.columns.outputs() <= kMostPixels;
}

at::Tensor small_map_convolution(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, const ConvSteps& steps) {
  at::Tensor y;
  if (weight.size(2) == 1 && steps.stride == 1) {  // each pixel by itself: all are one product
    const at::Tensor pixels = x.permute({0, 2, 3, 1}).reshape({-1, x.size(1), 1, 1});
    y = SmallMapConvolution::apply(pixels, weight, 1, 0)
            .view({x.size(0), x.size(2), x.size(3), weight.size(0)})
            .permute({0, 3, 1, 2});
  } else {
    y = SmallMapConvolution::apply(x, weight, steps.stride, steps.padding);
  }
  return bias.defined() ? y + bias.to(y.scalar_type()).view({1, -1, 1, 1}) : y;
}

}  // namespace kiln
