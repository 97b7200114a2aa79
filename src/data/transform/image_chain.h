// A TransformChain as training and prediction use it, divided into the part that is the same for an
// image in every epoch and the part that is drawn anew.
#pragma once

#include <memory>
#include <optional>

#include "data/image/image.h"
#include "data/transform/operations.h"

namespace kiln {

// The key for the inference form, which gives the same result wherever an image is used: in
// training's validation, `kiln score` and `kiln transform apply`.
inline constexpr DrawKey kInferenceKey{};

// Immutable and thread-safe.
struct ImageChain {
  TransformChain whole;
  TransformChain fixed;  // its first operations, applied with kInferenceKey
  TransformChain drawn;  // the others, applied with the key of the image in its epoch
  // Whether every image has its final size between the two parts, so that the pixels can be cached
  // there.
  bool can_be_kept = false;
};

// The form for training. `whole_image`: the size of all images, if they have a common one. Throws
// ImageFault as TransformChain::output_size() does.
std::shared_ptr<const ImageChain> training_chain(const TransformChain& chain,
                                                 std::optional<ImageSize> whole_image);
// The form for everything else, made from a chain in either form: none of its operations draws
// anew.
std::shared_ptr<const ImageChain> inference_chain(const TransformChain& chain);

}  // namespace kiln
