// The network of an ONNX model, from a trace of its own operators, so that a new network needs no
// exporter; and the pixels before it.
#pragma once

#include <string>

#include "data/transform/image_pipeline.h"
#include "model/image_model.h"
#include "tools/export/onnx_graph.h"

namespace kiln {

// Values of the graph: the logits, and the features that they are computed from (the input of the
// head).
struct OnnxOutputs {
  std::string logits, features;
};

// Adds the network's forward pass on `pixels` (normalized, [N, 3, H, W]).
// `network` is on the CPU, in float32, with BatchNorm folded; its parameters require no gradient
// from now on. `traced_at`: an image size that the network accepts; the graph takes others as well.
// Throws Error kFailedToCompleteOperation naming an operator for which there is no rule.
OnnxOutputs add_network(OnnxGraph& graph, ImageModel& network, ImageSize traced_at,
                        const std::string& pixels);

// Adds what makes the network's input of `image`, uint8 [N, H, W, 3] of any size, as `spec` and
// `normalization` say, and returns it: [N, 3, output.height, output.width]. An image that `spec`
// does not accept fails in the graph. Throws Error kUserError naming an operation of a chain that
// ONNX does not have.
std::string add_pixels(OnnxGraph& graph, const TransformSpec& spec,
                       const Normalization& normalization, const std::string& image);

}  // namespace kiln
