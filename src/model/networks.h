// The networks behind ImageModel, one function per family. In src/, only src/model includes this,
// because torch::nn takes ten seconds to compile.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "model/image_model.h"
#include "model/layers.h"

namespace kiln {

// [N, 3, H, W] -> [N, num_outputs]; H and W at least the family's smallest side. Returned without
// initial values. `options.model_name` must be one of the family's.
using NetworkMaker = std::shared_ptr<Network>(const ModelOptions& options, int num_outputs);

// ResNet, ResNeXt and Wide ResNet as torchvision defines them (stride in the 3x3 convolution:
// "v1.5"). He et al., arXiv:1512.03385; Xie et al., arXiv:1611.05431; Zagoruyko and Komodakis,
// arXiv:1605.07146.
NetworkMaker make_resnet;

// DenseNet-BC as torchvision defines it. Huang et al., arXiv:1608.06993; memory_efficient: Pleiss
// et al., arXiv:1707.06990: in training, backward recomputes each layer's concatenation and
// bottleneck instead of keeping them in memory.
NetworkMaker make_densenet;

// MobileNetV3 as torchvision defines it. Howard et al., arXiv:1905.02244.
NetworkMaker make_mobilenet_v3;

// EfficientNet and EfficientNetV2 as torchvision defines them. Tan and Le, arXiv:1905.11946,
// arXiv:2104.00298.
NetworkMaker make_efficientnet;

// ConvNeXt as torchvision defines it. Liu et al., arXiv:2201.03545.
NetworkMaker make_convnext;

// Vision transformers: vit_b_16 as torchvision defines it, the others as timm does, and for
// DINOv2's weights with layer scale. Dosovitskiy et al., arXiv:2010.11929; Oquab et al.,
// arXiv:2304.07193.
NetworkMaker make_vit;

// A DenseNet that is in no catalogue.
struct DenseNetShape {
  int growth_rate;
  std::array<int, 4> num_layers;
  int num_init_features;
};
std::shared_ptr<Network> make_densenet(const DenseNetShape& shape, bool memory_efficient,
                                       int num_outputs);

// A row for each family of the catalogue.
struct FamilyMaker {
  std::string_view family;
  NetworkMaker* make;
};
inline constexpr std::array kFamilyMakers{FamilyMaker{"ResNet", make_resnet},
                                          FamilyMaker{"DenseNet", make_densenet},
                                          FamilyMaker{"MobileNetV3", make_mobilenet_v3},
                                          FamilyMaker{"EfficientNet", make_efficientnet},
                                          FamilyMaker{"ConvNeXt", make_convnext},
                                          FamilyMaker{"ViT", make_vit}};

// `network` behind the interface, with an output layer if `options` ask for one.
std::unique_ptr<ImageModel> image_model_of(std::shared_ptr<Network> network,
                                           const ModelOptions& options);

}  // namespace kiln
