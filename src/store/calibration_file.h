// The calibration of a trained model (base/calibration.h), stored in the ModelDirectory as
// `calibration.json`:
//
//   {
//     "version": 1,
//     "temperature": 1.37,               the confidence is softmax(logits / temperature)
//     "answers": [[0.431, 3, 2], ...]    of the validation images: confidence, images from it to
//   }                                    the next, and those of them that were right
//
// All keys are required and no others are allowed. Directories written by an older version or by
// another program have no such file; their temperature is 1.
#pragma once

#include <string>
#include <string_view>

#include "base/calibration.h"

namespace kiln {

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
Calibration parse_calibration(std::string_view json, const std::string& where);
// Round-trips exactly: parsing the text gives the same values to the last bit.
std::string format_calibration(const Calibration& calibration);

}  // namespace kiln
