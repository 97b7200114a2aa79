// A TransformChain as training and prediction use it: what of it is the same for an image in every
// epoch, and what is drawn again.
#pragma once

#include <memory>
#include <optional>

#include "data/image/image.h"
#include "data/transform/operations.h"

namespace kiln {

// Of the inference form, which looks the same to everyone who sees an image: training's validation,
// `kiln score`, `kiln transform apply`.
inline constexpr DrawKey kInferenceKey{};

// Immutable; any thread.
struct ImageChain {
  TransformChain whole;
  TransformChain fixed;  // its first operations, applied with kInferenceKey
  TransformChain drawn;  // the others, applied with the key of the image in its epoch
  // Between the two every image has the size that it has in the end, so that pixels may be kept
  // there.
  bool can_be_kept = false;
};

// The form for training. `whole_image`: the size of all images, if they have one. Throws
// ImageFault as TransformChain::output_size() does.
std::shared_ptr<const ImageChain> training_chain(const TransformChain& chain,
                                                 std::optional<ImageSize> whole_image);
// The form for everything else, of a chain in either form: no operation of it draws.
std::shared_ptr<const ImageChain> inference_chain(const TransformChain& chain);

}  // namespace kiln
