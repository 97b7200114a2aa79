#include "model/catalogue.h"

#include <algorithm>
#include <array>

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
      {"efficientnet_v2_s",
       "EfficientNet",
       {{{"efficientnet_v2_s-dd5fe13b.pth", 87, 84.2}}},
       {"efficientnetv2_s"}},
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

// timm's default weights of networks that are the same here, by its names of both; but for those
// that are torchvision's. What is empty is not known.
constexpr std::array<PublishedWeights, 21> kTimms{{
    {"resnet18.a1_in1k", 47, 71.5, 224, "ebd61f9c7420e5b5b53262b8ce6bbe311e1e872a",
     "80c49dee3da4822c009c5a7fe591e9223c5a2cfcf95a4067ca4dfb5a7b89c612"},
    {"resnet34.a1_in1k", 87, 76.4, 224, "",
     "829a220f9529d2b1ffdc8719d3273463001e0daf411eaf1916865d9db62c0ed2"},
    {"resnet50.a1_in1k", 102, 80.4, 224, "5d9e13b8fdab4d9718bcf2c8f5c3af01878367e8",
     "773525d5821de224f8f30c33377b7a795d7863e08522698200d3217d3f2a41bb"},
    {"resnet101.a1h_in1k", 179, 82.0, 224, "21721ac354aff8c4fbc371f3c4e46fa8832d4d68",
     "1a076c0384295e7d3704f201c5711ff245507db934230bab72ff3014a95f90fe"},
    {"resnet152.a1h_in1k", 241, 82.8},
    {"resnext50_32x4d.a1h_in1k", 100, 81.1, 224, "8af8dd95e2a7538fad74714fc76507d9de9de33c",
     "b952952a7b3e856b16ebf82fb44d2aa8c502e73ec678976c9e3b970fcd530bd5"},
    {"wide_resnet50_2.racm_in1k", 276, 81.5},
    {"densenet121.ra_in1k", 32, 75.6, 224, "e65bed9f92a2e438879b179438d22ed719be26d6"},
    {"mobilenetv3_large_100.ra_in1k", 22, 75.8, 224, "6bb94b5210be33364f802aa99ef7109990a86c5f",
     "f425af34cc1cead2b5d6211f789a1f30b94835dc32f9c0fcc5a916e4fd2dde85"},
    {"mobilenetv3_small_100.lamb_in1k", 10, 67.6, 224, "1824797e7887cbec1990e4adbd6675960a36c589",
     "46d2c063b18125884c48937afa4c49e18128869e52e8db96df48bf0a4d7ff697"},
    {"efficientnet_b0.ra_in1k", 21, 77.7, 224, "1b5383e5f79cc0f7fc067e372f8f26a5fa73f26a",
     "d569899762ea9b1384ee07f4af64805cf8caa1c55f9253ebb1080dc40e87a2cd"},
    {"efficientnet_b1.ra4_e3600_r240_in1k", 31, 80.4, 240, "", "", true},
    {"efficientnet_b2.ra_in1k", 37, 80.6, 288},
    {"efficientnet_b3.ra2_in1k", 49, 81.5, 288, "707c9b711f7f114b4c1601d566a4aaf9fdba4a49",
     "279d2a53898aa89dab43fd6bd7df9f706aea4cb9cf916223988bbcb8e5850469"},
    {"convnext_tiny.in12k_ft_in1k", 114, 84.2, 224, "82e66eaa8f64015e07bab574834728820a6652a7",
     "a1aefa409b513cf209b085424eb3efffe4e4a9f511491bc2c12ea35209e6bb95"},
    {"convnext_small.in12k_ft_in1k", 201, 85.2},
    {"convnext_base.fb_in22k_ft_in1k", 354, 85.8},
    {"vit_base_patch16_224.augreg2_in21k_ft_in1k", 346, 85.1, 224,
     "063c6c38a5d8510b2e57df480445e94b231dad2c",
     "32aa17d6e17b43500f531d5f6dc9bc93e56ed8841b8a75682e1bb295d722405b", true},
    {"vit_small_patch16_224.augreg_in21k_ft_in1k", 88, 81.4, 224, "", "", true},
    {"vit_small_patch14_dinov2.lvd142m", 88, 0, 224, "4610ca143709d58a633b6397a74412c2c3842454",
     "04d27f3400d059fc0cfd7d17dd1909a75bf3ea8fb3eeb48b97cb99e57ee20081"},
    {"vit_base_patch14_dinov2.lvd142m", 346, 0, 224, "1dc7cda4727a9f4baa37f3ef407928dd642d0149",
     "55cbb5d887b336d430e649c277b85a1429e724871f9d02ac16203235886d8c7b"},
}};

std::string PublishedWeights::url() const {
  std::string name(file);
  if (file.starts_with("https://")) return name;
  if (file.ends_with(".pth")) return "https://download.pytorch.org/models/" + name;
  return "https://huggingface.co/timm/" + name + "/resolve/" +
         std::string(revision.empty() ? "main" : revision) + "/model.safetensors";
}

bool names_published(std::string_view weights) {
  return weights == "timm" || weights == "torchvision" || weights == "torchvision:v1" ||
         weights == "torchvision:v2";
}

const PublishedWeights* find_published(const KnownNetwork& network, std::string_view word) {
  if (word == "timm") {
    const auto* const row = std::ranges::find_if(kTimms, [&](const PublishedWeights& one) {
      return find_network(one.file.substr(0, one.file.find('.'))) == &network;
    });
    return row == kTimms.end() ? nullptr : row;
  }
  const PublishedWeights& row = network.published.at(word.ends_with("v2") ? 1 : 0);
  return row.file.ends_with(".pth") && !row.file.starts_with("https://") ? &row : nullptr;
}

bool is_of_half(std::string_view file_name) {
  return std::ranges::any_of(kTimms, [&](const PublishedWeights& row) {
    return row.is_half && file_name.find(row.file) != file_name.npos;
  });
}

const PublishedWeights& published_weights(const KnownNetwork& network, std::string_view word) {
  if (const PublishedWeights* found = find_published(network, word)) return *found;
  std::vector<std::string> others;
  for (const KnownNetwork& other : known_networks())
    if (find_published(other, word) != nullptr) others.emplace_back(other.name);
  const std::string name(network.name), publisher(word.substr(0, word.find(':')));
  std::string_view elsewhere = network.published[0].file;
  if (!elsewhere.starts_with("https://"))
    elsewhere = find_published(network, "torchvision") != nullptr ? "torchvision" : "timm";
  throw Error(ErrorCode::kUserError, "--weights " + std::string(word) + ": " + publisher +
                                         " has no such weights of " + name + ", but of " +
                                         joined(others, ", ") + "; those of " + name +
                                         " are --weights " + std::string(elsewhere) + ".");
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
