#include <ATen/ops/tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/platform/installation.h"
#include "tools/export/export.h"
#include "tools/export/onnx_graph.h"
#include "tools/export/onnx_network.h"

namespace kiln {
namespace {

// For the trace of a model that does not say which size its images had.
constexpr ImageSize kAnySize{224, 224};

// Adds the graph's input and what makes the network's input of it, which is returned.
std::string add_input(OnnxGraph& graph, const ExportedModel& exported) {
  const std::optional<TransformSpec>& spec = exported.model.pixels;
  if (!exported.config.takes_pixels) {
    if (!spec)
      throw Error(ErrorCode::kUserError,
                  "--trained-model-path " + quoted_path(exported.config.trained_model_path) +
                      " has no " + std::string(kPreprocessingFile) +
                      ", so how images are prepared is unknown: give --input pixels.");
    graph.add_input({"image", OnnxType::kUint8, {"batch", "height", "width", 3}});
    return add_pixels(graph, *spec, exported.model.normalization, "image");
  }
  std::vector<OnnxDimension> shape{"batch", 3, "height", "width"};
  if (spec) shape = {"batch", 3, spec->output.height, spec->output.width};
  graph.add_input({"pixels", OnnxType::kFloat, shape});
  return "pixels";
}

// What a user of the file must know and cannot see in the graph.
std::vector<std::pair<std::string, std::string>> metadata_of(const ExportedModel& exported) {
  const ModelDirectory& directory = exported.model.directory;
  std::vector<std::pair<std::string, std::string>> metadata = {
      {"labels", quoted_list(directory.labels)},
      {"network", directory.spec.model_name},
      {"program", std::string(program_version())},
      {"model", exported.model.print},
      {"exif_orientation", is_turned(exported) ? "apply" : "ignore"},
      {"calibration", format_calibration(directory.calibration)}};
  if (directory.preprocessing)
    metadata.emplace_back("preprocessing", format_preprocessing(*directory.preprocessing));
  return metadata;
}

// For the model card.
std::string lines_to_run(const ExportedModel& exported) {
  const std::string facts = "\nLabels, preparation and calibration are in the file's metadata.\n";
  if (exported.config.takes_pixels)
    return "Its input `pixels` are images that are prepared as in training: float32 [N, 3, height, "
           "width]. Its outputs are `probabilities` and `logits`, [N, classes].\n" +
           facts;
  const std::string file = std::filesystem::path(exported.config.output_path).filename().string();
  return "```python\nimport json, numpy, onnxruntime\nfrom PIL import Image, ImageOps\n\n" +
         python_to_read_photo(exported) + "\nsession = onnxruntime.InferenceSession(" +
         quoted(file) +
         ")\nlabels = json.loads(session.get_modelmeta().custom_metadata_map[\"labels\"])\n"
         "image = numpy.asarray(read_photo(\"photo.jpg\"))\n"
         "probabilities, = session.run([\"probabilities\"], {\"image\": image[None]})\n" +
         (exported.model.rule->has_several_labels
              ? "classes = json.loads(session.get_modelmeta().custom_metadata_map[\"calibration\"])"
                "[\"classes\"]\n"
                "print([label for label, share, one in zip(labels, probabilities[0], classes) "
                "if share >= one[1]])\n"
              : "print(labels[probabilities[0].argmax()], probabilities[0].max())\n") +
         "```\n" + facts;
}

// The last nodes: the probabilities of logits.
void add_probabilities(OnnxGraph& graph, const ExportedModel& exported, const std::string& logits) {
  const Calibration& calibration = exported.model.directory.calibration;
  if (!exported.model.rule->has_several_labels) {
    const std::string temperature = graph.number(static_cast<float>(calibration.temperature));
    graph.add("Softmax", {graph.add("Div", {logits, temperature})}, {{"axis", std::int64_t{1}}},
              "probabilities");
    return;
  }
  std::vector<double> temperatures;
  for (const LabelCalibration& label : calibration.labels)
    temperatures.push_back(label.temperature);
  const std::string each = graph.weights(at::tensor(temperatures, at::kFloat));
  graph.add("Sigmoid", {graph.add("Div", {logits, each})}, {}, "probabilities");
}

// How many of the numbers, ascending, are smaller than `value`.
std::string add_place(OnnxGraph& graph, const at::Tensor& numbers, const std::string& value) {
  const std::string is_larger = graph.add("Greater", {value, graph.weights(numbers.contiguous())});
  return graph.add("ReduceSum", {graph.cast(is_larger, OnnxType::kFloat), graph.integers({1})},
                   {{"keepdims", std::int64_t{1}}});
}

// Likeness::alike() of features and logits.
void add_alike(OnnxGraph& graph, const ExportedModel& exported, const std::string& features,
               const std::string& logits) {
  if (!exported.model.likeness)
    throw Error(ErrorCode::kUserError, "--trained-model-path " +
                                           quoted_path(exported.config.trained_model_path) +
                                           " has no " + std::string(kFeaturesFile) +
                                           ", which --alike needs: `kiln embed --into` adds it.");
  const Likeness& known = *exported.model.likeness;
  const std::string length = graph.add("ReduceL2", {features, graph.integers({1})});
  std::string row = graph.add("Div", {features, graph.add("Max", {length, graph.number(1e-12F)})});
  if (known.axes.defined()) row = graph.add("MatMul", {row, graph.weights(known.axes)});
  const std::string nearness =
      graph.add("MatMul", {row, graph.weights(known.references.t().contiguous())});
  const std::string nearest = graph.add("TopK", {nearness, graph.integers({kNearest})}, {}, "", 2);
  const std::string fifth =
      graph.add("Gather", {nearest, graph.integers({kNearest - 1})}, {{"axis", std::int64_t{1}}});
  const std::string distance = graph.add("Sub", {graph.number(1), fifth});
  const std::string lack =
      graph.add("Neg", {graph.add("ReduceLogSumExp", {logits, graph.integers({1})})});
  const std::string place = graph.add("Max", {add_place(graph, known.held_out[0], distance),
                                              add_place(graph, known.held_out[1], lack)});
  const auto all = static_cast<float>(known.held_out.size(1) + 1);
  const std::string like =
      graph.add("Sub", {graph.number(all), add_place(graph, known.held_out[2], place)});
  graph.add("Squeeze", {graph.add("Div", {like, graph.number(all)}), graph.integers({1})}, {},
            "alike");
}

}  // namespace

std::string onnx_model(const ExportedModel& exported) {
  Predictor& model = exported.model;
  const std::optional<TransformSpec>& spec = model.pixels;
  OnnxGraph graph(exported.config.half);
  const std::string pixels = add_input(graph, exported);
  const OnnxOutputs outputs =
      add_network(graph, *model.network, spec ? spec->output : kAnySize, pixels);
  const std::string logits = graph.add("Identity", {outputs.logits}, {}, "logits");
  add_probabilities(graph, exported, logits);
  const std::vector<OnnxDimension> shape{"batch",
                                         static_cast<std::int64_t>(model.directory.labels.size())};
  graph.add_output({"probabilities", OnnxType::kFloat, shape});
  graph.add_output({"logits", OnnxType::kFloat, shape});
  if (exported.config.alike) {
    add_alike(graph, exported, outputs.features, logits);
    graph.add_output({"alike", OnnxType::kFloat, {"batch"}});
  }
  return graph.model(metadata_of(exported));
}

std::vector<OutputFile> onnx_files(const ExportedModel& exported) {
  return {{".md", model_card(exported, lines_to_run(exported))}, {"", onnx_model(exported)}};
}

}  // namespace kiln
