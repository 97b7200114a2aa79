// ResNet, ResNeXt and Wide ResNet as torchvision defines them (stride in the 3x3 convolution:
// "v1.5"). He et al., arXiv:1512.03385; Xie et al., arXiv:1611.05431; Zagoruyko and Komodakis,
// arXiv:1605.07146.
#pragma once

#include <memory>

#include "model/catalogue.h"
#include "model/layers.h"

namespace kiln {

// [N, 3, H, W] -> [N, num_classes]; at least one pixel. Initialised.
std::shared_ptr<Network> make_resnet(const ResNetShape& shape, int num_classes,
                                     bool zero_init_residual);

}  // namespace kiln
