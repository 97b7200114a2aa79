#include "tools/export/onnx_network.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

namespace jit = torch::jit;

using Ints = std::vector<std::int64_t>;

// The values of the trace as values of the graph.
struct Translation {
  OnnxGraph& graph;
  std::map<const jit::Value*, std::string> names;
};

// One operator of the trace, with its arguments by position.
class Call {
 public:
  Call(const jit::Node& node, Translation& translation) : node_(node), to_(translation) {}

  OnnxGraph& graph() const { return to_.graph; }

  // "": none.
  std::string tensor(std::size_t i) const { return name_of(node_.input(i)); }
  std::vector<std::string> tensors(std::size_t i) const {
    std::vector<std::string> names;
    for (const jit::Value* value : list(i)) names.push_back(name_of(value));
    return names;
  }
  Ints shape(std::size_t i) const {  // of a constant
    return constant(node_.input(i)).toTensor().sizes().vec();
  }
  // Of a value in the trace, whose first number is that of its images.
  Ints traced_shape(std::size_t i) const {
    return *node_.input(i)->type()->expectRef<c10::TensorType>().sizes().concrete_sizes();
  }
  Ints integers(std::size_t i) const {
    Ints values;
    for (const jit::Value* value : list(i)) values.push_back(constant(value).toInt());
    return values;
  }
  // Height and width, for which one number may stand.
  Ints sides(std::size_t i) const {
    const Ints given = integers(i);
    require(given.size() == 1 || given.size() == 2);
    return {given.front(), given.back()};
  }
  std::int64_t integer(std::size_t i) const { return constant(node_.input(i)).toInt(); }
  float number(std::size_t i) const {
    return static_cast<float>(constant(node_.input(i)).toScalar().toDouble());
  }
  bool flag(std::size_t i) const { return constant(node_.input(i)).toBool(); }

  // An operator of the first tensor alone.
  std::string plain(const char* name) const { return graph().add(name, {tensor(0)}); }

  // For arguments that a rule does not translate.
  void require(bool is_usual) const {
    if (!is_usual) refuse("with these arguments");
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::kFailedToCompleteOperation,
                std::string("The network's operator ") + node_.kind().toQualString() + " " + what +
                    " has no rule for ONNX: use another --format.");
  }

 private:
  c10::IValue constant(const jit::Value* value) const {
    const auto found = jit::toIValue(value);
    if (!found) refuse("with an argument that is computed");
    return *found;
  }
  std::vector<const jit::Value*> list(std::size_t i) const {
    const auto values = node_.input(i)->node()->inputs();
    return {values.begin(), values.end()};
  }
  std::string name_of(const jit::Value* value) const {
    const auto known = to_.names.find(value);
    if (known != to_.names.end()) return known->second;
    const c10::IValue found = constant(value);
    if (found.isNone()) return "";
    return to_.names.emplace(value, to_.graph.weights(found.toTensor())).first->second;
  }

  const jit::Node& node_;
  Translation& to_;
};

// At the begin and the end of each side.
Ints both_ends(const Ints& padding) {
  Ints pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

// Each rule is an ATen operator and what it becomes; arguments as in native_functions.yaml.

std::string convolution(const Call& call) {
  call.require(!call.flag(6));  // transposed
  const Ints weight = call.shape(1);
  std::vector<std::string> inputs{call.tensor(0), call.tensor(1)};
  if (const std::string bias = call.tensor(2); !bias.empty()) inputs.push_back(bias);
  return call.graph().add("Conv", inputs,
                          {{"kernel_shape", Ints(weight.begin() + 2, weight.end())},
                           {"strides", call.sides(3)},
                           {"pads", both_ends(call.sides(4))},
                           {"dilations", call.sides(5)},
                           {"group", call.integer(8)}});
}

std::string batch_norm(const Call& call) {
  call.require(!call.flag(5));  // training
  return call.graph().add(
      "BatchNormalization",
      {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(4)},
      {{"epsilon", call.number(7)}});
}

std::string max_pool(const Call& call) {
  return call.graph().add("MaxPool", {call.tensor(0)},
                          {{"kernel_shape", call.sides(1)},
                           {"strides", call.sides(2)},
                           {"pads", both_ends(call.sides(3))},
                           {"dilations", call.sides(4)},
                           {"ceil_mode", std::int64_t{call.flag(5)}}});
}

std::string average_pool(const Call& call) {
  return call.graph().add("AveragePool", {call.tensor(0)},
                          {{"kernel_shape", call.sides(1)},
                           {"strides", call.sides(2)},
                           {"pads", both_ends(call.sides(3))},
                           {"ceil_mode", std::int64_t{call.flag(4)}},
                           {"count_include_pad", std::int64_t{call.flag(5)}}});
}

std::string mean(const Call& call) {
  return call.graph().add("ReduceMean", {call.tensor(0), call.graph().integers(call.integers(1))},
                          {{"keepdims", std::int64_t{call.flag(2)}}});
}

std::string linear(const Call& call) {
  OnnxGraph& graph = call.graph();
  if (call.traced_shape(0).size() > 2)
    return graph.add(
        "Add", {graph.add("MatMul", {call.tensor(0), graph.add("Transpose", {call.tensor(1)})}),
                call.tensor(2)});
  return call.graph().add("Gemm", {call.tensor(0), call.tensor(1), call.tensor(2)},
                          {{"transB", std::int64_t{1}}});
}

std::string add(const Call& call) {
  call.require(call.number(2) == 1);  // alpha
  return call.graph().add("Add", {call.tensor(0), call.tensor(1)});
}

std::string concatenate(const Call& call) {
  return call.graph().add("Concat", call.tensors(0), {{"axis", call.integer(1)}});
}

std::string multiply(const Call& call) {
  return call.graph().add("Mul", {call.tensor(0), call.tensor(1)});
}

std::string hardsigmoid(const Call& call) {
  return call.graph().add("HardSigmoid", {call.tensor(0)}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}});
}

std::string silu(const Call& call) {
  return call.graph().add("Mul", {call.tensor(0), call.plain("Sigmoid")});
}

// x / 2 (1 + erf(x / sqrt(2))); Gelu itself needs a later operator set.
std::string gelu(const Call& call) {
  OnnxGraph& graph = call.graph();
  const std::string x = call.tensor(0);
  const std::string scaled = graph.add("Mul", {x, graph.number(std::numbers::sqrt2_v<float> / 2)});
  const std::string share = graph.add("Add", {graph.add("Erf", {scaled}), graph.number(1)});
  return graph.add("Mul", {graph.add("Mul", {x, graph.number(0.5F)}), share});
}

std::string layer_norm(const Call& call) {
  call.require(call.integers(1).size() == 1);
  return call.graph().add("LayerNormalization", {call.tensor(0), call.tensor(2), call.tensor(3)},
                          {{"axis", std::int64_t{-1}}, {"epsilon", call.number(4)}});
}

std::string permute(const Call& call) {
  return call.graph().add("Transpose", {call.tensor(0)}, {{"perm", call.integers(1)}});
}

// Of the last dimension.
std::string unflatten(const Call& call) {
  const std::int64_t dimension = call.integer(1);
  call.require(dimension + 1 == static_cast<std::int64_t>(call.traced_shape(0).size()));
  Ints shape(static_cast<std::size_t>(dimension), 0);  // as they are
  for (const std::int64_t size : call.integers(2)) shape.push_back(size);
  return call.graph().add("Reshape", {call.tensor(0), call.graph().integers(shape)});
}

// To the last dimension.
std::string flatten(const Call& call) {
  const std::int64_t first = call.integer(1), last = call.integer(2);
  call.require(last == -1 || last + 1 == static_cast<std::int64_t>(call.traced_shape(0).size()));
  Ints shape(static_cast<std::size_t>(first), 0);
  shape.push_back(-1);
  return call.graph().add("Reshape", {call.tensor(0), call.graph().integers(shape)});
}

std::string select(const Call& call) {
  OnnxGraph& graph = call.graph();
  const std::int64_t dimension = call.integer(1);
  const std::string one = graph.add("Gather", {call.tensor(0), graph.integers({call.integer(2)})},
                                    {{"axis", dimension}});
  return graph.add("Squeeze", {one, graph.integers({dimension})});
}

// LibTorch lists both ends of the last dimension first.
std::string pad(const Call& call) {
  const Ints given = call.integers(1);
  const std::size_t rank = call.traced_shape(0).size();
  Ints pads(2 * rank, 0);
  for (std::size_t i = 0; i < given.size() / 2; ++i) {
    pads[rank - 1 - i] = given[2 * i];
    pads[2 * rank - 1 - i] = given[2 * i + 1];
  }
  return call.graph().add("Pad", {call.tensor(0), call.graph().integers(pads)});
}

// softmax(q k^T / sqrt(size)) v, of [N, heads, tokens, size].
std::string attention(const Call& call) {
  OnnxGraph& graph = call.graph();
  call.require(call.tensor(3).empty() && !call.flag(5) && call.traced_shape(0).size() == 4);
  const auto size = static_cast<float>(call.traced_shape(0).back());
  const std::string keys = graph.add("Transpose", {call.tensor(1)}, {{"perm", Ints{0, 1, 3, 2}}});
  const std::string queries = graph.add("Mul", {call.tensor(0), graph.number(1 / std::sqrt(size))});
  const std::string shares =
      graph.add("Softmax", {graph.add("MatMul", {queries, keys})}, {{"axis", std::int64_t{-1}}});
  return graph.add("MatMul", {shares, call.tensor(2)});
}

struct Rule {
  std::string_view operation;
  std::string (*translate)(const Call& call);
};

constexpr std::array kRules{
    Rule{"aten::_convolution", convolution},
    Rule{"aten::batch_norm", batch_norm},
    Rule{"aten::relu", [](const Call& call) { return call.plain("Relu"); }},
    Rule{"aten::max_pool2d", max_pool},
    Rule{"aten::avg_pool2d", average_pool},
    Rule{"aten::mean", mean},
    Rule{"aten::linear", linear},
    Rule{"aten::add", add},
    Rule{"aten::cat", concatenate},
    Rule{"aten::mul", multiply},
    Rule{"aten::hardswish", [](const Call& call) { return call.plain("HardSwish"); }},
    Rule{"aten::hardsigmoid", hardsigmoid},
    Rule{"aten::sigmoid", [](const Call& call) { return call.plain("Sigmoid"); }},
    Rule{"aten::silu", silu},
    Rule{"aten::gelu", gelu},
    Rule{"aten::layer_norm", layer_norm},
    Rule{"aten::permute", permute},
    Rule{"aten::unflatten", unflatten},
    Rule{"aten::flatten", flatten},
    Rule{"aten::select", select},
    Rule{"aten::constant_pad_nd", pad},
    Rule{"aten::scaled_dot_product_attention", attention},
};

std::shared_ptr<jit::Graph> trace_of(ImageModel& network, ImageSize size) {
  // The tracer takes tensors that are not its inputs as constants, if they require no gradient.
  for (const NamedTensor& item : network.named_parameters()) item.tensor.set_requires_grad(false);
  const auto forward = [&](jit::Stack inputs) -> jit::Stack {
    const at::Tensor features = network.pooled_features(inputs.front().toTensor());
    return {network.logits_of(features), features};
  };
  const at::NoGradGuard no_grad;
  return jit::tracer::trace(
             {at::zeros({1, 3, size.height, size.width})}, forward,
             [](const at::Tensor&) { return std::string(); }, /*strict=*/true,
             /*force_outplace=*/true)
      .first->graph;
}

}  // namespace

OnnxOutputs add_network(OnnxGraph& graph, ImageModel& network, ImageSize traced_at,
                        const std::string& pixels) {
  const std::shared_ptr<jit::Graph> trace = trace_of(network, traced_at);
  Translation translation{graph, {{trace->inputs().front(), pixels}}};
  for (const jit::Node* node : trace->nodes()) {
    if (node->kind().is_prim()) continue;  // constants and lists, read where they are used
    const Call call(*node, translation);
    const auto* const rule =
        std::ranges::find(kRules, node->kind().toQualString(), &Rule::operation);
    if (rule == kRules.end()) call.refuse("");
    translation.names[node->output()] = rule->translate(call);
  }
  return {translation.names.at(trace->outputs()[0]), translation.names.at(trace->outputs()[1])};
}

}  // namespace kiln
