// A folder that timm loads: https://huggingface.co/docs/timm/hf_hub. Its config.json says how timm
// prepares images, too, which is near to what this program does; the model card has the same.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/catalogue.h"
#include "model/weights/timm_names.h"
#include "model/weights/weight_source.h"
#include "store/state_dict_file.h"
#include "tools/export/export.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

// What timm divides the side by, to resize to the whole part of the quotient before it crops.
double crop_share(const TransformSpec& pixels, int side) {
  if (pixels.fit != Fit::kCrop || pixels.short_side <= side) return 1;
  const double share = static_cast<double>(side) / pixels.short_side;
  return std::floor(side / share) < pixels.short_side ? std::nextafter(share, 0.) : share;
}

// "head.fc" of "head.fc.weight".
std::string layer_of(const StoredTensor& tensor) {
  return tensor.name.substr(0, tensor.name.rfind('.'));
}

}  // namespace

std::vector<OutputFile> timm_files(const ExportedModel& exported) {
  Predictor& model = exported.model;
  const KnownNetwork& network = known_network(model.directory.spec.model_name);
  const TransformSpec pixels =
      model.pixels.value_or(TransformSpec{.output = {network.side(), network.side()}});
  const auto [height, width] = pixels.output;
  StateDict state = plain_state(exported, pixels.output);
  const std::string last = model.network->head().front().name;
  const auto head = std::ranges::find(state, last, &StoredTensor::name);
  rename_to_timm(state, network.family_name);
  for (StoredTensor& tensor : state) tensor.name.erase(0, kModelPrefix.size());
  const auto first = std::ranges::find_if(state, [](const StoredTensor& tensor) {
    return tensor.shape.size() == 4 && tensor.shape[1] == 3;
  });
  Json config{{"architecture", network.also[0].empty() ? network.name : network.also[0]},
              {"num_classes", model.directory.labels.size()},
              {"num_features", model.num_features()},
              {"label_names", Json::parse(quoted_list(model.directory.labels))},
              {"pretrained_cfg",
               {{"input_size", {3, height, width}},
                {"fixed_input_size", network.patch > 0},
                {"interpolation", "bilinear"},
                {"crop_pct", crop_share(pixels, std::min(height, width))},
                {"crop_mode", pixels.fit == Fit::kStretch ? "squash"
                              : pixels.fit == Fit::kPad   ? "border"
                                                          : "center"},
                {"mean", model.normalization.mean},
                {"std", model.normalization.std},
                {"first_conv", layer_of(*first)},
                {"classifier", layer_of(*head)}}}};
  if (network.patch > 0) config["model_args"] = {{"img_size", {height, width}}};
  // With or without a slash at its end.
  const std::filesystem::path inside = std::filesystem::path(exported.config.output_path) / "";
  const std::string folder = "local-dir:" + inside.parent_path().filename().string();
  const std::string use = python_to_answer(
      exported, "timm",
      "network = timm.create_model(" + quoted(folder) + ", pretrained=True).eval()\n");
  return {{"/README.md", model_card(exported, use)},
          {"/config.json", config.dump(2) + "\n"},
          {"/model.safetensors", write_safetensors(state)}};
}

}  // namespace kiln
