// What a run makes of the weights stored in an untrained model directory.
#pragma once

#include <string>

#include "model/image_model.h"
#include "store/tensor.h"

namespace kiln {

// Loads the stored `model.` tensors; `out_linear_model`, which belongs to the data, keeps its fresh
// values.
void load_pretrained(ImageModel& model, const StateDict& stored, const std::string& where);

// The stored values are not used, but must be those of this network: every tensor but the head's by
// name and shape. Both throw Error kInvalidModelDirectory naming `where` and the tensors.
void check_untrained(const ImageModel& model, const StateDict& stored, const std::string& where);

}  // namespace kiln
