// The networks behind ImageModel, one function per family. In src/, only src/model includes this,
// because torch::nn takes ten seconds to compile.
#pragma once

#include <memory>

#include "model/catalogue.h"
#include "model/layers.h"

namespace kiln {

// ResNet, ResNeXt and Wide ResNet as torchvision defines them (stride in the 3x3 convolution:
// "v1.5"). He et al., arXiv:1512.03385; Xie et al., arXiv:1611.05431; Zagoruyko and Komodakis,
// arXiv:1605.07146.

// [N, 3, H, W] -> [N, num_classes]; H and W at least 1. Returned initialized.
std::shared_ptr<Network> make_resnet(const ResNetShape& shape, int num_classes,
                                     bool zero_init_residual);

// DenseNet-BC as torchvision defines it. Huang et al., arXiv:1608.06993; memory_efficient: Pleiss
// et al., arXiv:1707.06990.

// [N, 3, H, W] -> [N, num_classes]; H and W at least 29. Returned initialized. `memory_efficient`:
// in training, backward recomputes each layer's concatenation and bottleneck instead of keeping
// them in memory.
std::shared_ptr<Network> make_densenet(const DenseNetShape& shape, int num_classes,
                                       bool memory_efficient);

}  // namespace kiln
