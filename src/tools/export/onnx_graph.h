// An ONNX model, node by node. Format: onnx.proto (https://github.com/onnx/onnx), whose messages
// are written directly: libprotobuf and libonnx export the same symbols as LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/tfrecord.h"

namespace kiln {

// Numbered as TensorProto.DataType.
enum class OnnxType { kFloat = 1, kUint8 = 2, kInt64 = 7, kBool = 9, kFloat16 = 10 };

struct OnnxAttribute {
  std::string_view name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value;
};

// A number, or the name of a dimension that may have any size.
using OnnxDimension = std::variant<std::int64_t, std::string>;

// An input or output of the whole graph.
struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<OnnxDimension> shape;
};

// Values are known by their names; "" is an optional input that is left out. Use from one thread.
class OnnxGraph {
 public:
  static constexpr std::int64_t kOperatorSet = 18;

  // With `half_weights`, weights() stores float16.
  explicit OnnxGraph(bool half_weights = false) : half_weights_(half_weights) {}

  // Adds a node of the standard operator set. Returns its first output, which is called `output` if
  // that is given; nobody uses the others.
  std::string add(std::string_view operation, const std::vector<std::string>& inputs,
                  const std::vector<OnnxAttribute>& attributes = {}, std::string output = "",
                  int num_outputs = 1);
  std::string cast(const std::string& value, OnnxType type);

  std::string integers(const std::vector<std::int64_t>& values);  // [n], int64
  std::string number(float value);                                // a scalar
  std::string channels(const std::array<double, 3>& values);      // [1, 3, 1, 1]
  // A tensor of the network: float32 as the graph computes, float16 in the file if that is wanted.
  // Throws Error kUserError for a value that float16 does not have.
  std::string weights(const at::Tensor& tensor);

  void add_input(const OnnxValue& value) { graph_.message(kInput, message_of(value)); }
  void add_output(const OnnxValue& value) { graph_.message(kOutput, message_of(value)); }

  // The file. `metadata`: keys and texts for whoever uses the model. The graph must not be used
  // afterwards.
  std::string model(const std::vector<std::pair<std::string, std::string>>& metadata);

 private:
  static constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;

  static ProtoMessage message_of(const OnnxValue& value);
  std::string add_constant(OnnxType type, const std::vector<std::int64_t>& shape,
                           std::string_view bytes);
  std::string next_name() { return "v" + std::to_string(++num_values_); }

  const bool half_weights_;
  ProtoMessage graph_;
  int num_values_ = 0;
};

}  // namespace kiln
