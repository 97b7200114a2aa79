#include "model/feature_map.h"

namespace kiln {
namespace {

int halved_up(int side) {
  return (side + 1) / 2;
}

}  // namespace

int final_map_side(std::string_view model_name, int image_side) {
  int side =
      halved_up(halved_up(image_side));  // both begin with a convolution and a pooling of stride 2
  for (int stage = 0; stage < 3; ++stage)
    side = model_name.starts_with("densenet") ? side / 2 : halved_up(side);
  return side;
}

}  // namespace kiln
