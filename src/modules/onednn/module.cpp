#include "modules/onednn/module.h"

#include <dnnl.hpp>
#include <new>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln {
namespace {

using dnnl::memory;
using Kind = memory::data_type;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
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

dnnl::convolution_forward::primitive_desc described(const PreparedShape& shape, bool has_bias) {
  const Kind kind = shape.is_bfloat16 ? Kind::bf16 : Kind::f32;
  const auto outputs = [&](std::int64_t side) {
    return (side + 2 * shape.padding - shape.kernel) / shape.stride + 1;
  };
  const memory::desc x({shape.images, shape.in_channels, shape.height, shape.width}, kind,
                       Tag::nhwc);
  const memory::desc out(
      {shape.images, shape.out_channels, outputs(shape.height), outputs(shape.width)}, kind,
      Tag::nhwc);
  const memory::desc bias =
      has_bias ? memory::desc({shape.out_channels}, Kind::f32, Tag::a) : memory::desc();
  const memory::dims strides{shape.stride, shape.stride}, padding{shape.padding, shape.padding};
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(after(shape));
  return {{dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x,
           weights_desc(shape, kind, /*is_plain=*/false), bias, out, strides, padding, padding},
          attributes,
          engine(),
          /*allow_empty=*/true};
}

memory copied(const memory::desc& from, const float* values, const memory::desc& to) {
  memory plain(from, engine(), const_cast<float*>(values)), packed(to, engine());
  dnnl::reorder(plain, packed).execute(stream(), plain, packed);
  stream().wait();
  return packed;
}

class Prepared : public PreparedConvolution {
 public:
  Prepared(const dnnl::convolution_forward::primitive_desc& desc, const memory& weight,
           const memory& bias)
      : convolution_(desc),
        weight_(weight),
        x_(desc.src_desc(), engine(), nullptr),
        out_(desc.dst_desc(), engine(), nullptr),
        scratchpad_(desc.scratchpad_desc(), engine(), nullptr),
        arguments_{{DNNL_ARG_SRC, x_},
                   {DNNL_ARG_WEIGHTS, weight_},
                   {DNNL_ARG_BIAS, bias},
                   {DNNL_ARG_DST, out_},
                   {DNNL_ARG_SCRATCHPAD, scratchpad_}} {}

  void run(const void* x, void* out) override {
    x_.set_data_handle(const_cast<void*>(x));
    out_.set_data_handle(out);
    scratchpad_.set_data_handle(scratchpad(scratchpad_.get_desc().get_size()));
    convolution_.execute(stream(), arguments_);
    stream().wait();
  }

  const memory& weight() const { return weight_; }

 private:
  dnnl::convolution_forward convolution_;
  memory weight_, x_, out_, scratchpad_;
  std::unordered_map<int, memory> arguments_;
};

PreparedPointer prepare(const PreparedShape& shape, const float* weight, const float* bias,
                        const std::vector<PreparedPointer>& others) {
  try {
    const auto desc = described(shape, bias != nullptr);
    if (!desc || std::string_view(desc.impl_info_str()).starts_with("ref")) return nullptr;
    memory packed;
    for (const PreparedPointer& other : others)
      if (other && static_cast<const Prepared&>(*other).weight().get_desc() == desc.weights_desc())
        packed = static_cast<const Prepared&>(*other).weight();
    if (!packed)
      packed =
          copied(weights_desc(shape, Kind::f32, /*is_plain=*/true), weight, desc.weights_desc());
    return std::make_shared<Prepared>(
        desc, packed,
        bias == nullptr ? memory() : copied(desc.bias_desc(), bias, desc.bias_desc()));
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw;
  }
}

constexpr OnednnModule kModule{kOnednnModuleVersion, prepare};

}  // namespace
}  // namespace kiln

extern "C" const kiln::OnednnModule* kiln_onednn_module() {
  return &kiln::kModule;
}
