// How an image becomes the input of a trained model: what validation did to it, so that code that
// uses the model can do the same. Stored in the ModelDirectory as `preprocessing.json`:
//
//   {
//     "version": 1,
//     "resize_short_side": 256,   null: no image is resized, each must have the input's size
//     "keep_exact_size": true,    an image that has the input's size already is not resized
//     "input_size": [224, 224],   height, width: cut from the center
//     "mean": [0.5, 0.5, 0.5],    of R, G, B as 0 to 1
//     "std": [0.5, 0.5, 0.5]
//   }
//
// All keys are there, others are not. Resizing is bilinear and antialiased, on 8-bit pixels, as
// Pillow's; the offset of the center is (size - input size) / 2, halves to even.
//
// With operations of a TransformationDirectory the version is 2, nothing is resized by
// "resize_short_side", and one more key follows: "transforms", the inference form of the
// operations as `_transforms.json` lists them. Every image must have the input's size after them.
#pragma once

#include <string>
#include <string_view>

#include "base/vocabulary.h"

namespace kiln {

// torchvision's, for the weights that it publishes.
inline constexpr Normalization kImagenetNormalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

struct Preprocessing {
  int height = 0;  // of the network's input
  int width = 0;
  int resize_short_side = 0;  // 0: none; else at least the longer side of the input
  bool keep_exact_size = true;
  Normalization normalization;
  std::string transforms = {};  // JSON; empty: none
  bool operator==(const Preprocessing&) const = default;
};

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
Preprocessing parse_preprocessing(std::string_view json, const std::string& where);
// The same values for the same text and back, to the last bit of mean and std.
std::string format_preprocessing(const Preprocessing& preprocessing);

}  // namespace kiln
