#include "model/catalogue.h"

#include <algorithm>

#include "base/text.h"

namespace kiln {

const std::vector<NetworkFamily>& network_families() {
  static const std::vector<NetworkFamily> kFamilies{
      {"ResNet", "resnet", "conv1.weight", {kZeroInitResidual}, 32, 1},
      {"DenseNet", "densenet", "features.conv0.weight", {kMemoryEfficient}, 4, 8},
      {"MobileNetV3", "", "features.0.0.weight", {}, 32, 1},
      {"EfficientNet", "", "features.0.0.weight", {}, 32, 1},
      {"ConvNeXt", "", "features.0.0.weight", {}, 1, 32, "adamw", false},
      {"ViT", "", "conv_proj.weight", {}, 1, 16, "adamw", false},
  };
  return kFamilies;
}

const std::vector<KnownNetwork>& known_networks() {
  constexpr std::string_view kDinoV2Small =
      "https://dl.fbaipublicfiles.com/dinov2/dinov2_vits14/dinov2_vits14_pretrain.pth";
  constexpr std::string_view kDinoV2Base =
      "https://dl.fbaipublicfiles.com/dinov2/dinov2_vitb14/dinov2_vitb14_pretrain.pth";
  static const std::vector<KnownNetwork> kNetworks{
      {"resnet18", "ResNet", {{{"resnet18-f37072fd.pth", 47, 69.8}}}},
      {"resnet34", "ResNet", {{{"resnet34-b627a593.pth", 87, 73.3}}}},
      {"resnet50",
       "ResNet",
       {{{"resnet50-0676ba61.pth", 103, 76.1}, {"resnet50-11ad3fa6.pth", 103, 80.9}}}},
      {"resnet101",
       "ResNet",
       {{{"resnet101-63fe2227.pth", 179, 77.4}, {"resnet101-cd907fc2.pth", 179, 81.9}}}},
      {"resnet152",
       "ResNet",
       {{{"resnet152-394f9c45.pth", 242, 78.3}, {"resnet152-f82ba261.pth", 242, 82.3}}}},
      {"resnext50_32x4d",
       "ResNet",
       {{{"resnext50_32x4d-7cdf4587.pth", 100, 77.6},
         {"resnext50_32x4d-1a0047aa.pth", 100, 81.2}}}},
      {"resnext101_32x8d",
       "ResNet",
       {{{"resnext101_32x8d-8ba56ff5.pth", 356, 79.3},
         {"resnext101_32x8d-110c445d.pth", 356, 82.8}}}},
      {"wide_resnet50_2",
       "ResNet",
       {{{"wide_resnet50_2-95faca4d.pth", 138, 78.5},
         {"wide_resnet50_2-9ba9bcbe.pth", 276, 81.6}}}},
      {"wide_resnet101_2",
       "ResNet",
       {{{"wide_resnet101_2-32ee1156.pth", 255, 78.8},
         {"wide_resnet101_2-d733dc28.pth", 508, 82.5}}}},
      {"densenet121", "DenseNet", {{{"densenet121-a639ec97.pth", 32, 74.4}}}},
      {"densenet161", "DenseNet", {{{"densenet161-8d451a50.pth", 116, 77.1}}}},
      {"densenet169", "DenseNet", {{{"densenet169-b2777c0a.pth", 57, 75.6}}}},
      {"densenet201", "DenseNet", {{{"densenet201-c1103571.pth", 81, 76.9}}}},
      {"mobilenet_v3_large",
       "MobileNetV3",
       {{{"mobilenet_v3_large-8738ca79.pth", 22, 74.0},
         {"mobilenet_v3_large-5c1a4163.pth", 22, 75.3}}},
       {"mobilenetv3_large_100"}},
      {"mobilenet_v3_small",
       "MobileNetV3",
       {{{"mobilenet_v3_small-047dcff4.pth", 10, 67.7}}},
       {"mobilenetv3_small_100"}},
      {"efficientnet_b0", "EfficientNet", {{{"efficientnet_b0_rwightman-7f5810bc.pth", 21, 77.7}}}},
      {"efficientnet_b1",
       "EfficientNet",
       {{{"efficientnet_b1_rwightman-bac287d4.pth", 32, 78.6, 240},
         {"efficientnet_b1-c27df63c.pth", 32, 79.8, 240}}}},
      {"efficientnet_b2",
       "EfficientNet",
       {{{"efficientnet_b2_rwightman-c35c1473.pth", 37, 80.6, 288}}}},
      {"efficientnet_b3",
       "EfficientNet",
       {{{"efficientnet_b3_rwightman-b3899882.pth", 49, 82.0, 300}}}},
      {"efficientnet_v2_s", "EfficientNet", {{{"efficientnet_v2_s-dd5fe13b.pth", 87, 84.2}}}},
      {"convnext_tiny", "ConvNeXt", {{{"convnext_tiny-983f1562.pth", 114, 82.5}}}},
      {"convnext_small", "ConvNeXt", {{{"convnext_small-0c510722.pth", 201, 83.6}}}},
      {"convnext_base", "ConvNeXt", {{{"convnext_base-6075fbad.pth", 354, 84.1}}}},
      {"vit_b_16", "ViT", {{{"vit_b_16-c867db91.pth", 346, 81.1}}}, {"vit_base_patch16_224"}, 16},
      {"vit_s_16", "ViT", {}, {"vit_small_patch16_224"}, 16},
      {"vit_s_14",
       "ViT",
       {{{kDinoV2Small, 88}}},
       {"vit_small_patch14_dinov2", "dinov2_vits14"},
       14},
      {"vit_b_14", "ViT", {{{kDinoV2Base, 346}}}, {"vit_base_patch14_dinov2", "dinov2_vitb14"}, 14},
  };
  return kNetworks;
}

std::string PublishedWeights::url() const {
  return (file.starts_with("https://") ? "" : "https://download.pytorch.org/models/") +
         std::string(file);
}

bool names_torchvision(std::string_view weights) {
  return weights == "torchvision" || weights == "torchvision:v1" || weights == "torchvision:v2";
}

bool is_torchvisions(const KnownNetwork& network) {
  const std::string_view file = network.published[0].file;
  return !file.empty() && !file.starts_with("https://");
}

const PublishedWeights& torchvisions_weights(const KnownNetwork& network, std::string_view word) {
  const std::size_t number = word.ends_with("v2") ? 1 : 0;
  const auto has_them = [&](const KnownNetwork& any) {
    return is_torchvisions(any) && !any.published.at(number).file.empty();
  };
  if (has_them(network)) return network.published.at(number);
  std::vector<std::string> others;
  for (const KnownNetwork& other : known_networks())
    if (has_them(other)) others.emplace_back(other.name);
  const std::string name(network.name), elsewhere(network.published[0].file);
  const bool is_elsewhere = !elsewhere.empty() && !is_torchvisions(network);
  throw Error(ErrorCode::kUserError,
              "--weights " + std::string(word) + ": torchvision has no such weights of " + name +
                  ", but of " + joined(others, ", ") +
                  (is_elsewhere ? "; those of " + name + " are --weights " + elsewhere : "") + ".");
}

int NetworkFamily::final_map_side(int image_side) const {
  return (image_side + stride_rounding_up - 1) / stride_rounding_up / stride_rounding_down;
}

const NetworkFamily& KnownNetwork::family() const {
  return *find_row(network_families(), family_name);
}

int KnownNetwork::final_map_side(int image_side) const {
  if (patch == 0) return family().final_map_side(image_side);
  return image_side % patch == 0 ? image_side / patch : 0;
}

std::string KnownNetwork::size_fault(int height, int width) const {
  if (final_map_side(height) > 0 && final_map_side(width) > 0) return "";
  if (patch > 0)
    return "cannot be cut into the patches of " + std::to_string(patch) + " pixels of " +
           std::string(name);
  return "are too small for " + std::string(name);
}

void KnownNetwork::require_size(int height, int width, const std::string& advice,
                                ErrorCode code) const {
  if (const std::string fault = size_fault(height, width); !fault.empty())
    throw Error(code, "Images of " + std::to_string(width) + "x" + std::to_string(height) +
                          " pixels " + fault + ": " + advice + ".");
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const KnownNetwork& network : known_networks()) names.emplace_back(network.name);
  return names;
}

const KnownNetwork* find_network(std::string_view name) {
  for (const KnownNetwork& network : known_networks())
    if (network.name == name || (!name.empty() && std::ranges::count(network.also, name) > 0))
      return &network;
  return nullptr;
}

const KnownNetwork& known_network(std::string_view name) {
  if (const KnownNetwork* network = find_network(name)) return *network;
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + std::string(name) +
                  "' is not a known model. Known models: " + joined(network_names(), ", ") + ".");
}

}  // namespace kiln
