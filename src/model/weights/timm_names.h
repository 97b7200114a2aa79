// timm's names of the tensors of networks that torchvision has too.
#pragma once

#include "store/state_dict_file.h"

namespace kiln {

// Gives the tensors of a network, `model.…`, the names and shapes that torchvision has today, where
// they have timm's or older ones. Variances also make up for what timm's BatchNorm adds to them.
void take_torchvision_names(StateDict& state);

}  // namespace kiln
