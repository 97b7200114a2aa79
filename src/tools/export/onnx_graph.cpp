#include "tools/export/onnx_graph.h"

#include <ATen/ops/isfinite.h>

#include "base/error.h"
#include "base/platform/installation.h"

namespace kiln {
namespace {

constexpr std::int64_t kIrVersion = 8;  // the one that came with operator set 18

// The last three fields of AttributeProto.AttributeType, and those of the values.
struct AttributeMessage {
  ProtoMessage& message;

  void operator()(std::int64_t value) const { message.integer(3, value).integer(kType, 2); }
  void operator()(float value) const { message.small_real(2, value).integer(kType, 1); }
  void operator()(const std::string& value) const { message.text(4, value).integer(kType, 3); }
  void operator()(const std::vector<std::int64_t>& values) const {
    for (const std::int64_t value : values) message.integer(8, static_cast<std::uint64_t>(value));
    message.integer(kType, 7);
  }

 private:
  static constexpr int kType = 20;
};

template <typename Value>
std::string_view bytes_of(const Value* values, std::size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(Value)};  // NOLINT: little-endian
}

}  // namespace

std::string OnnxGraph::add(std::string_view operation, const std::vector<std::string>& inputs,
                           const std::vector<OnnxAttribute>& attributes, std::string output,
                           int num_outputs) {
  if (output.empty()) output = next_name();
  ProtoMessage node;
  for (const std::string& input : inputs) node.text(1, input);
  node.text(2, output);
  for (int i = 1; i < num_outputs; ++i) node.text(2, next_name());
  node.text(3, output).text(4, operation);
  for (const OnnxAttribute& attribute : attributes) {
    ProtoMessage message;
    message.text(1, attribute.name);
    std::visit(AttributeMessage{message}, attribute.value);
    node.message(5, message);
  }
  graph_.message(kNode, node);
  return output;
}

std::string OnnxGraph::cast(const std::string& value, OnnxType type) {
  return add("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}});
}

std::string OnnxGraph::add_constant(OnnxType type, const std::vector<std::int64_t>& shape,
                                    std::string_view bytes) {
  std::string name = next_name();
  ProtoMessage tensor;
  for (const std::int64_t size : shape) tensor.integer(1, static_cast<std::uint64_t>(size));
  tensor.integer(2, static_cast<std::uint64_t>(type)).text(8, name).text(9, bytes);
  graph_.message(kInitializer, tensor);
  return name;
}

std::string OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  return add_constant(OnnxType::kInt64, {static_cast<std::int64_t>(values.size())},
                      bytes_of(values.data(), values.size()));
}

std::string OnnxGraph::number(float value) {
  return add_constant(OnnxType::kFloat, {}, bytes_of(&value, 1));
}

std::string OnnxGraph::channels(const std::array<double, 3>& values) {
  const std::array<float, 3> floats{static_cast<float>(values[0]), static_cast<float>(values[1]),
                                    static_cast<float>(values[2])};
  return add_constant(OnnxType::kFloat, {1, 3, 1, 1}, bytes_of(floats.data(), floats.size()));
}

std::string OnnxGraph::weights(const at::Tensor& tensor) {
  const at::Tensor stored = tensor.detach().to(half_weights_ ? at::kHalf : at::kFloat).contiguous();
  if (!at::isfinite(stored).all().item<bool>())
    throw Error(ErrorCode::kUserError,
                "--half: a weight of the network is larger than float16 allows: leave it out.");
  std::string name =
      add_constant(half_weights_ ? OnnxType::kFloat16 : OnnxType::kFloat, tensor.sizes().vec(),
                   bytes_of(static_cast<const char*>(stored.const_data_ptr()), stored.nbytes()));
  return half_weights_ ? cast(name, OnnxType::kFloat) : name;
}

ProtoMessage OnnxGraph::message_of(const OnnxValue& value) {
  ProtoMessage shape;
  for (const OnnxDimension& dimension : value.shape) {
    ProtoMessage message;
    if (const auto* size = std::get_if<std::int64_t>(&dimension))
      message.integer(1, static_cast<std::uint64_t>(*size));
    else
      message.text(2, std::get<std::string>(dimension));
    shape.message(1, message);
  }
  const ProtoMessage tensor =
      ProtoMessage().integer(1, static_cast<std::uint64_t>(value.type)).message(2, shape);
  return ProtoMessage().text(1, value.name).message(2, ProtoMessage().message(1, tensor));
}

std::string OnnxGraph::model(const std::vector<std::pair<std::string, std::string>>& metadata) {
  graph_.text(kName, "kiln");
  ProtoMessage file;
  file.integer(1, kIrVersion).text(2, "kiln").text(3, version_number()).message(7, graph_);
  file.message(8, ProtoMessage().text(1, "").integer(2, kOperatorSet));
  for (const auto& [key, text] : metadata)
    file.message(14, ProtoMessage().text(1, key).text(2, text));
  return file.bytes();
}

}  // namespace kiln
