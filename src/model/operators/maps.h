// What operators without LibTorch's headers need to know of feature maps.
#pragma once

namespace kiln {

// Of the numbers in feature maps. Those that are computed with are float, or double with kFloat64.
enum class MapType { kFloat32, kBfloat16, kFloat64 };

// What follows a convolution and its normalization.
enum class Activation { kNone, kRelu, kHardswish, kSilu };

}  // namespace kiln
