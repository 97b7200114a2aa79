// The calibration of a trained model (base/calibration.h), stored in the ModelDirectory as
// `calibration.json`:
//
//   {
//     "version": 1,
//     "temperature": 1.37,               the confidence is softmax(logits / temperature)
//     "answers": [[0.431, 3, 2], ...]    of the validation images: confidence, images from it to
//   }                                    the next, and those of them that were right
//
// All keys are there, others are not. A directory of an older version or of another program has no
// such file: its temperature is 1.
#pragma once

#include <string>
#include <string_view>

#include "base/calibration.h"

namespace kiln {

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
Calibration parse_calibration(std::string_view json, const std::string& where);
// The same values for the same text and back, to the last bit.
std::string format_calibration(const Calibration& calibration);

}  // namespace kiln
