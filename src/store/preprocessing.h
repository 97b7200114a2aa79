// How an image becomes the input of a trained model: what validation did, so that code using the
// model can do the same. Stored in the ModelDirectory as `preprocessing.json`:
//
//   {
//     "version": 1,
//     "exif": "apply",            pictures are turned upright first; "ignore", as if it is missing:
//                                 they are not
//     "resize_short_side": 256,   null: images are resized to the least size that covers the
//                                 input's
//     "keep_exact_size": true,    an image that already has the input's size is not resized
//     "input_size": [224, 224],   height, width: center crop
//     "mean": [0.5, 0.5, 0.5],    of R, G, B, each from 0 to 1
//     "std": [0.5, 0.5, 0.5]
//   }
//
// All other keys are required and no more are allowed. Resizing is bilinear and antialiased, on
// 8-bit pixels, as in Pillow. The offset of the crop is (size - input size) / 2, with halves
// rounded to even.
//
// If the model uses the operations of a TransformationDirectory, the version is 2,
// "resize_short_side" is not used, and one more key follows: "transforms", the inference form of
// the operations in the format of `_transforms.json`. An image that then has another size than the
// input is resized to cover it, and cropped.
#pragma once

#include <string>
#include <string_view>

#include "record/vocabulary.h"

namespace kiln {

// torchvision's normalization for its published weights.
inline constexpr Normalization kImagenetNormalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

struct Preprocessing {
  Exif exif = Exif::kIgnore;
  int height = 0;  // of the network's input, as is the width
  int width = 0;
  int resize_short_side = 0;  // 0: none; else at least the longer side of the input
  bool keep_exact_size = true;
  Normalization normalization;
  std::string transforms = {};  // JSON; empty: none
  bool operator==(const Preprocessing&) const = default;
};

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
Preprocessing parse_preprocessing(std::string_view json, const std::string& where);
// Round-trips exactly: parsing the text gives the same values, mean and std to the last bit.
std::string format_preprocessing(const Preprocessing& preprocessing);

}  // namespace kiln
