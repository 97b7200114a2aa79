// timm's names of the tensors of networks that torchvision has, too: to ours and back.
#pragma once

#include <string>
#include <string_view>

#include "store/state_dict_file.h"

namespace kiln {

// Gives the tensors of a network, `model.…`, the names and shapes that torchvision has today, where
// they have timm's or older ones. Variances, then in float32, also make up for what timm's
// BatchNorm adds to them, which no tensor says: 1e-5, or 1e-3 in its `tf_` networks, of which
// `is_tensorflows` are. Returns which one was taken, as a clause for the log; empty for networks of
// one epsilon.
std::string rename_to_torchvision(StateDict& state, bool is_tensorflows);

// The way back, for all tensors of a network of this family, with the epsilon of timm's networks
// that are not `tf_`.
void rename_to_timm(StateDict& state, std::string_view family);

}  // namespace kiln
