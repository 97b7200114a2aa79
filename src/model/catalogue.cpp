#include "model/catalogue.h"

#include <algorithm>

#include "base/error.h"

namespace kiln {

const std::vector<NetworkFamily>& network_families() {
  static const std::vector<NetworkFamily> kFamilies{{.name = "ResNet",
                                                     .designer_module = "resnet",
                                                     .first_layer = "conv1.weight",
                                                     .options = {kZeroInitResidual},
                                                     .stride_rounding_up = 32,
                                                     .stride_rounding_down = 1},
                                                    {.name = "DenseNet",
                                                     .designer_module = "densenet",
                                                     .first_layer = "features.conv0.weight",
                                                     .options = {kMemoryEfficient},
                                                     .stride_rounding_up = 4,
                                                     .stride_rounding_down = 8}};
  return kFamilies;
}

const std::vector<KnownNetwork>& known_networks() {
  static const std::vector<KnownNetwork> kNetworks{
      {"resnet18", "ResNet", {"resnet18-f37072fd.pth"}},
      {"resnet34", "ResNet", {"resnet34-b627a593.pth"}},
      {"resnet50", "ResNet", {"resnet50-0676ba61.pth", "resnet50-11ad3fa6.pth"}},
      {"resnet101", "ResNet", {"resnet101-63fe2227.pth", "resnet101-cd907fc2.pth"}},
      {"resnet152", "ResNet", {"resnet152-394f9c45.pth", "resnet152-f82ba261.pth"}},
      {"resnext50_32x4d",
       "ResNet",
       {"resnext50_32x4d-7cdf4587.pth", "resnext50_32x4d-1a0047aa.pth"}},
      {"resnext101_32x8d",
       "ResNet",
       {"resnext101_32x8d-8ba56ff5.pth", "resnext101_32x8d-110c445d.pth"}},
      {"wide_resnet50_2",
       "ResNet",
       {"wide_resnet50_2-95faca4d.pth", "wide_resnet50_2-9ba9bcbe.pth"}},
      {"wide_resnet101_2",
       "ResNet",
       {"wide_resnet101_2-32ee1156.pth", "wide_resnet101_2-d733dc28.pth"}},
      {"densenet121", "DenseNet", {"densenet121-a639ec97.pth"}},
      {"densenet161", "DenseNet", {"densenet161-8d451a50.pth"}},
      {"densenet169", "DenseNet", {"densenet169-b2777c0a.pth"}},
      {"densenet201", "DenseNet", {"densenet201-c1103571.pth"}},
  };
  return kNetworks;
}

std::string weights_url(std::string_view published_file) {
  return "https://download.pytorch.org/models/" + std::string(published_file);
}

bool NetworkFamily::allows(std::string_view option) const {
  return std::find(options.begin(), options.end(), option) != options.end();
}

int NetworkFamily::final_map_side(int image_side) const {
  return (image_side + stride_rounding_up - 1) / stride_rounding_up / stride_rounding_down;
}

const NetworkFamily& KnownNetwork::family() const {
  return *find_family(family_name);
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const KnownNetwork& network : known_networks()) names.emplace_back(network.name);
  return names;
}

const KnownNetwork* find_network(std::string_view name) {
  for (const KnownNetwork& network : known_networks())
    if (network.name == name) return &network;
  return nullptr;
}

const NetworkFamily* find_family(std::string_view name) {
  for (const NetworkFamily& family : network_families())
    if (family.name == name) return &family;
  return nullptr;
}

const KnownNetwork& known_network(std::string_view name) {
  if (const KnownNetwork* network = find_network(name)) return *network;
  std::string names;
  for (const std::string& known : network_names()) names += (names.empty() ? "" : ", ") + known;
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + std::string(name) + "' is not a known model. Known models: " + names + ".");
}

}  // namespace kiln
