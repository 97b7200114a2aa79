#include "modules/onednn/module.h"

#include <dnnl.hpp>
#include <new>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kiln {
namespace {

using dnnl::memory;
using Kind = memory::data_type;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  static const dnnl::engine kCpu(dnnl::engine::kind::cpu, 0);
  return kCpu;
}

dnnl::stream& stream() {
  thread_local dnnl::stream of_thread(engine());
  return of_thread;
}

// What kernels need beside their arguments: one for all, since a thread runs one at a time.
void* scratchpad(std::size_t size) {
  thread_local std::vector<char> of_thread;
  if (of_thread.size() < size) of_thread.resize(size);
  return of_thread.data();
}

dnnl::post_ops after(const PreparedShape& shape) {
  dnnl::post_ops after;
  if (shape.adds) after.append_sum();
  switch (shape.activation) {
    case Activation::kRelu:
      after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
      break;
    case Activation::kHardswish:
      after.append_eltwise(1, dnnl::algorithm::eltwise_hardswish, 0, 0);
      break;
    case Activation::kSilu:
      after.append_eltwise(1, dnnl::algorithm::eltwise_swish, 1, 0);
      break;
    case Activation::kNone:
      break;
  }
  return after;
}

memory::desc weights_desc(const PreparedShape& shape, Kind kind, bool is_plain) {
  const std::int64_t out = shape.out_channels, in = shape.in_channels / shape.groups,
                     side = shape.kernel;
  if (shape.groups == 1) return {{out, in, side, side}, kind, is_plain ? Tag::oihw : Tag::any};
  return {
      {shape.groups, out / shape.groups, in, side, side}, kind, is_plain ? Tag::goihw : Tag::any};
}

// Of the maps that go in and come out.
struct Maps {
  memory::desc x, out;
  memory::dims kernel, stride, padding;
  dnnl::primitive_attr attributes;

  explicit Maps(const PreparedShape& shape)
      : kernel(2, shape.kernel), stride(2, shape.stride), padding(2, shape.padding) {
    const Kind kind = shape.is_bfloat16 ? Kind::bf16 : Kind::f32;
    x = {{shape.images, shape.in_channels, shape.height, shape.width}, kind, Tag::nhwc};
    out = {
        {shape.images, shape.out_channels, shape.outputs(shape.height), shape.outputs(shape.width)},
        kind,
        Tag::nhwc};
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attributes.set_post_ops(after(shape));
  }
};

dnnl::convolution_forward::primitive_desc described_convolution(const PreparedShape& shape,
                                                                bool has_bias) {
  const Maps maps(shape);
  const memory::desc bias =
      has_bias ? memory::desc({shape.out_channels}, Kind::f32, Tag::a) : memory::desc();
  const memory::desc weights = weights_desc(shape, maps.x.data_type(), /*is_plain=*/false);
  return {{dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, maps.x, weights,
           bias, maps.out, maps.stride, maps.padding, maps.padding},
          maps.attributes,
          engine(),
          /*allow_empty=*/true};
}

memory copied(const memory::desc& from, const float* values, const memory::desc& to) {
  memory plain(from, engine(), const_cast<float*>(values)), packed(to, engine());
  dnnl::reorder(plain, packed).execute(stream(), plain, packed);
  stream().wait();
  return packed;
}

class PreparedPrimitive : public Prepared {
 public:
  // `desc`: of `primitive`. `weight`, `bias`: empty if it has none.
  template <typename Desc>
  PreparedPrimitive(dnnl::primitive primitive, const Desc& desc, const memory& weight,
                    const memory& bias)
      : primitive_(std::move(primitive)),
        weight_(weight),
        x_(desc.src_desc(), engine(), nullptr),
        out_(desc.dst_desc(), engine(), nullptr),
        scratchpad_(desc.scratchpad_desc(), engine(), nullptr),
        arguments_{{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, out_}, {DNNL_ARG_SCRATCHPAD, scratchpad_}} {
    if (weight) arguments_.emplace(DNNL_ARG_WEIGHTS, weight);
    if (bias) arguments_.emplace(DNNL_ARG_BIAS, bias);
  }

  void run(const void* x, void* out) override {
    x_.set_data_handle(const_cast<void*>(x));
    out_.set_data_handle(out);
    scratchpad_.set_data_handle(scratchpad(scratchpad_.get_desc().get_size()));
    primitive_.execute(stream(), arguments_);
    stream().wait();
  }

  const memory& weight() const { return weight_; }

 private:
  dnnl::primitive primitive_;
  memory weight_, x_, out_, scratchpad_;
  std::unordered_map<int, memory> arguments_;
};

template <typename Desc>
bool is_fast(const Desc& desc) {
  return desc && !std::string_view(desc.impl_info_str()).starts_with("ref");
}

template <typename Make>
PreparedPointer within_memory(const Make& make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw;
  }
}

PreparedPointer convolution(const PreparedShape& shape, const float* weight, const float* bias,
                            const std::vector<PreparedPointer>& others) {
  return within_memory([&]() -> PreparedPointer {
    const auto desc = described_convolution(shape, bias != nullptr);
    if (!is_fast(desc)) return nullptr;
    memory packed;
    for (const PreparedPointer& other : others)
      if (const auto* like = static_cast<const PreparedPrimitive*>(other.get());
          like != nullptr && like->weight().get_desc() == desc.weights_desc())
        packed = like->weight();
    if (!packed)
      packed =
          copied(weights_desc(shape, Kind::f32, /*is_plain=*/true), weight, desc.weights_desc());
    return std::make_shared<PreparedPrimitive>(
        dnnl::convolution_forward(desc), desc, packed,
        bias == nullptr ? memory() : copied(desc.bias_desc(), bias, desc.bias_desc()));
  });
}

PreparedPointer max_pool(const PreparedShape& shape) {
  return within_memory([&]() -> PreparedPointer {
    const Maps maps(shape);
    const dnnl::pooling_forward::primitive_desc desc(
        {dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max, maps.x, maps.out,
         maps.stride, maps.kernel, maps.padding, maps.padding},
        maps.attributes, engine(), /*allow_empty=*/true);
    if (!is_fast(desc)) return nullptr;
    return std::make_shared<PreparedPrimitive>(dnnl::pooling_forward(desc), desc, memory(),
                                               memory());
  });
}

constexpr OnednnModule kModule{kOnednnModuleVersion, convolution, max_pool};

}  // namespace
}  // namespace kiln

extern "C" const kiln::OnednnModule* kiln_onednn_module() {
  return &kiln::kModule;
}
