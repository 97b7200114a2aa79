// The supported networks and their static properties. Also used by the command line and the readers
// of model directories, so there is no LibTorch here.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kiln {

// ResNet, ResNeXt and Wide ResNet.
struct ResNetShape {
  bool bottleneck;
  std::array<int, 4> num_blocks;
  int groups = 1;
  int width_per_group = 64;
};

struct DenseNetShape {
  int growth_rate;
  std::array<int, 4> num_layers;
  int num_init_features;
};

// Options of some networks, by their names in model_spec.yaml.
inline constexpr std::string_view kMemoryEfficient = "memory_efficient";
inline constexpr std::string_view kZeroInitResidual = "zero_init_residual";

// Properties shared by a family of networks.
struct NetworkFamily {
  std::string_view name;             // "ResNet"; the designer's class too
  std::string_view designer_module;  // the last part of its Python module
  std::string_view head;             // begins the names of the classifying layer's tensors: "fc."
  std::vector<std::string_view> options;
  // Determine the size of the feature map before global pooling: layers with this combined stride
  // come first, which round sides up; then layers with that stride, which round down.
  int stride_rounding_up;
  int stride_rounding_down;

  bool allows(std::string_view option) const;
  int stride() const { return stride_rounding_up * stride_rounding_down; }
  // The size of an image whose feature map is one pixel.
  int smallest_side() const { return stride_rounding_up * (stride_rounding_down - 1) + 1; }
  // 0: the image is too small.
  int final_map_side(int image_side) const;
};

// A row of the catalogue.
struct KnownNetwork {
  std::string_view name;  // torchvision's
  std::variant<ResNetShape, DenseNetShape> shape;
  // The names of torchvision's files with ImageNet weights, which hold the first eight digits of
  // their SHA-256; the second is of its newer recipe, where there is one.
  std::array<std::string_view, 2> published;

  const NetworkFamily& family() const;
};

const std::vector<KnownNetwork>& known_networks();
std::vector<std::string> network_names();

// Null for an unknown name.
const KnownNetwork* find_network(std::string_view name);
const NetworkFamily* find_family(std::string_view name);

// Throws Error kInvalidModelDirectory with the known names for an unknown one.
const KnownNetwork& known_network(std::string_view name);

}  // namespace kiln
