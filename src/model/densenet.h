// DenseNet-BC as torchvision defines it. Huang et al., arXiv:1608.06993; memory_efficient: Pleiss
// et al., arXiv:1707.06990.
#pragma once

#include <memory>

#include "model/catalogue.h"
#include "model/layers.h"

namespace kiln {

// [N, 3, H, W] -> [N, num_classes]; H and W at least 29. Initialised. `memory_efficient`: in
// training, backward computes each layer's concatenation and bottleneck again instead of keeping
// them.
std::shared_ptr<Network> make_densenet(const DenseNetShape& shape, int num_classes,
                                       bool memory_efficient);

}  // namespace kiln
