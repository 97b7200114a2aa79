#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "model/catalogue.h"
#include "model/positions.h"
#include "model/weights/starting_weights.h"
#include "store/state_dict_file.h"
#include "tools/export/export.h"

namespace kiln {
namespace {

constexpr std::string_view kPositions = "pos_embed";  // of transformers: for one size elsewhere

// The parameters of the last layer by name. A pretrained network's two are multiplied into one, in
// double, so that torchvision's network has them.
StateDict last_layer(ImageModel& network) {
  std::vector<NamedTensor> head = network.head();
  if (head.size() == 4) {
    const at::Tensor outer = head[2].tensor.detach().to(at::kDouble);
    const at::Tensor weight = outer.mm(head[0].tensor.detach().to(at::kDouble));
    const at::Tensor bias =
        outer.mv(head[1].tensor.detach().to(at::kDouble)) + head[3].tensor.detach().to(at::kDouble);
    head = {{head[0].name, weight.to(at::kFloat)}, {head[1].name, bias.to(at::kFloat)}};
  }
  return to_state_dict(std::move(head));
}

std::string list_of(const std::array<double, 3>& values) {
  return formatted("[%g, %g, %g]", values[0], values[1], values[2]);
}

// The lines of Python that prepare `image`, a Pillow image in RGB.
std::string preparation(const ExportedModel& exported) {
  const std::optional<Preprocessing>& how = exported.model.directory.preprocessing;
  if (!how) return "# Resize the image as in training.\n";
  if (exported.model.pixels->chain)
    return "# In training, these operations of torchvision.transforms followed: " +
           exported.model.pixels->chain->whole.summary() +
           "\nraise NotImplementedError(\"apply these operations to image, and remove this "
           "line\")\n";
  if (how->fit == Fit::kStretch)
    return formatted("image = functional.resize(image, [%d, %d])\n", how->height, how->width);
  if (how->fit == Fit::kPad)
    return formatted(
        "size = [min(%d, max(1, image.height * %d // image.width)),\n"
        "        min(%d, max(1, image.width * %d // image.height))]\n"
        "picture = functional.resize(image, size)\n"
        "image = Image.new(\"RGB\", (%d, %d), (%d, %d, %d))\n"
        "image.paste(picture, (round((%d - size[1]) / 2), round((%d - size[0]) / 2)))\n",
        how->height, how->width, how->width, how->height, how->width, how->height, how->fill[0],
        how->fill[1], how->fill[2], how->width, how->height);
  const std::string size = formatted("(%d, %d)", how->width, how->height);
  std::string side = std::to_string(how->resize_short_side);
  if (how->resize_short_side == 0 && how->height == how->width) side = std::to_string(how->width);
  if (how->resize_short_side == 0 && how->height != how->width)
    side = formatted(
        "[image.height * %d // image.width, %d] if image.height * %d >= image.width * %d else "
        "[%d, image.width * %d // image.height]",
        how->width, how->width, how->width, how->height, how->height, how->height);
  std::string text;
  if (how->keep_exact_size) text += "if image.size != " + size + ":\n    ";
  return text + "image = functional.resize(image, " + side + ")\n" +
         formatted("image = functional.center_crop(image, [%d, %d])\n", how->height, how->width);
}

// The lines that print the answer for `network` and `pixels`.
std::string answer_of(const Predictor& model) {
  const Calibration& calibration = model.directory.calibration;
  if (!model.rule->has_several_labels)
    return "probabilities = (network(pixels[None])[0] / " +
           formatted("%.9g", calibration.temperature) +
           ").softmax(0)\nprint(labels[probabilities.argmax()], probabilities.max().item())\n";
  std::vector<std::string> temperatures, thresholds;
  for (const LabelCalibration& label : calibration.labels) {
    temperatures.push_back(formatted("%.9g", label.temperature));
    thresholds.push_back(formatted("%.9g", label.threshold));
  }
  return "probabilities = (network(pixels[None])[0] / torch.tensor([" + joined(temperatures, ", ") +
         "])).sigmoid()\nthresholds = [" + joined(thresholds, ", ") +
         "]\nprint([label for label, share, least in zip(labels, probabilities.tolist(), "
         "thresholds) if share >= least])\n";
}

}  // namespace

std::string python_to_answer(const ExportedModel& exported, const std::string& package,
                             const std::string& loading) {
  const Predictor& model = exported.model;
  return "```python\nimport numpy, torch, " + package +
         "\nfrom PIL import Image, ImageOps\nfrom torchvision.transforms import functional\n\n" +
         python_to_read_photo(exported) + "\n" + loading +
         "labels = " + quoted_list(model.directory.labels) +
         "\nimage = read_photo(\"photo.jpg\")\n" + preparation(exported) +
         "pixels = functional.normalize(functional.to_tensor(image), " +
         list_of(model.normalization.mean) + ", " + list_of(model.normalization.std) + ")\n" +
         answer_of(model) + "```\n";
}

StateDict plain_state(const ExportedModel& exported, ImageSize size) {
  const StateDict head = last_layer(*exported.model.network);
  const int patch = known_network(exported.model.directory.spec.model_name).patch;
  StateDict state;
  for (StoredTensor& tensor : read_model_directory(exported.config.trained_model_path).state) {
    if (!tensor.name.starts_with(kModelPrefix)) continue;  // the output layer, which is in the head
    const auto combined = std::ranges::find(head, tensor.name, &StoredTensor::name);
    state.push_back(combined == head.end() ? tensor : *combined);
    if (StoredTensor& last = state.back(); last.name.find(kPositions) != last.name.npos)
      last = to_state_dict({{last.name, resampled_positions(view_of(last), size.height / patch,
                                                            size.width / patch)}})
                 .front();
  }
  return state;
}

std::vector<OutputFile> torchvision_files(const ExportedModel& exported) {
  const std::string& name = exported.model.directory.spec.model_name;
  const int patch = known_network(name).patch;
  const ImageSize size = exported.model.pixels ? exported.model.pixels->output : ImageSize{};
  if (const bool is_there = name == "vit_b_16";
      patch > 0 && !(is_there && size.height == size.width && size.height > 0))
    throw Error(ErrorCode::kUserError, "torchvision has no " + name +
                                           (is_there ? " of images that are no squares" : "") +
                                           ": use another --format, such as onnx.");
  StateDict state = plain_state(exported, size);
  for (StoredTensor& tensor : state) tensor.name.erase(0, kModelPrefix.size());
  const std::string file = std::filesystem::path(exported.config.output_path).filename().string();
  const std::string use = python_to_answer(
      exported, "torchvision",
      "network = torchvision.models.get_model(\"" + name +
          "\", num_classes=" + std::to_string(exported.model.directory.labels.size()) +
          (patch > 0 ? ", image_size=" + std::to_string(size.height) : "") +
          ").eval()\nnetwork.load_state_dict(torch.load(" + quoted(file) + "))\n");
  return {{".md", model_card(exported, use)}, {"", write_torch_zip(state)}};
}

}  // namespace kiln
