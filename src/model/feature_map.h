// The size of the map that reaches the global pooling, from the strides alone.
#pragma once

#include <string_view>

namespace kiln {

// Along one side, for an image side in pixels. 0: the image is too small for the network.
int final_map_side(std::string_view model_name, int image_side);

}  // namespace kiln
