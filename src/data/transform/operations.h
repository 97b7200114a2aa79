// The operations of an image transformation: torchvision's, by name, as listed in the
// `_transforms.json` of a TransformationDirectory:
//
//   [["Resize", 256], ["CenterCrop", 224], ["ColorJitter", {"brightness": 0.2}]]
//
// The arguments of an operation are a number, a list in the order of its parameters, or a mapping
// by name. Names, defaults and meaning are torchvision's (0.17). A list of two numbers that is not
// valid in this order is taken as a pair for the first parameter: ["Resize", [224, 160]] is a
// height and a width, ["RandomRotation", [-10, 30]] a range. Images are 8-bit RGB; a gray image has
// three equal channels. On average, results are within 2 of torchvision's on Pillow images.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/image/image.h"
#include "data/image/resample.h"

namespace kiln {

// All that the random operations on an image depend on.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t image = 0;   // its index in the dataset
  std::uint64_t repeat = 0;  // how often it came earlier in the epoch
};

// An image on its way through a chain, with scratch memory that is reused for the next one.
struct WorkImage {
  ImageSize size;
  std::vector<std::uint8_t> pixels;  // RGB, [H, W, 3]
  std::vector<float> samples;        // in tensor form, instead of `pixels`: RGB, [H, W, 3]
  std::vector<std::uint8_t> spare;   // the pixels being written
  std::vector<std::uint8_t> copy;
  Resampler resampler;

  // begin() returns the memory for the pixels of an image of size `next`; replace() then makes them
  // the pixels of this one. Throws ImageFault for a size that no image may have.
  std::uint8_t* begin(ImageSize next);
  void replace(ImageSize next);
};

struct ImageTransform;  // data/transform/image_transform.h: one operation

// A value type: copies are cheap and share immutable parts. Reading is thread-safe.
class TransformChain {
 public:
  // Parses the text of `_transforms.json`. Every fault is added to `problems` as Error
  // kInvalidTransformationDirectory naming `where` (a path), the operation and its argument: not a
  // list of operations, an unknown operation or argument (with the nearest known one), values out
  // of range, operations on tensors where there is none (Normalize and RandomErasing need ToTensor
  // before them, and ToPILImage has to follow), operations that make several images of one
  // (FiveCrop, TenCrop). If anything was added, the result must not be used.
  static TransformChain parse(std::string_view json, const std::string& where, Problems& problems);

  // As the original's "For inference": without the operations whose names start with "Random".
  // ColorJitter stays, and still draws.
  TransformChain for_inference() const;

  // The text that parse() accepts, indented by two spaces per level, without a final newline: as
  // the original writes it.
  std::string to_json() const;

  // "Resize 256, CenterCrop 224, RandomHorizontalFlip"; "no operation".
  std::string summary() const;

  // The operations before the first one that draws, and the rest; applying one after the other
  // equals the whole.
  std::pair<TransformChain, TransformChain> split_at_draws() const;

  bool empty() const { return operations_.empty(); }
  // Whether any operation draws, so that the key matters.
  bool is_random() const;

  // The size of the result for an image of size `whole`, or for any image. Empty if it depends on
  // the draws or on the image. Throws ImageFault as apply() does.
  std::optional<ImageSize> output_size(std::optional<ImageSize> whole = {}) const;

  // Changes pixels and size of `image`. The result depends only on the chain, the pixels and the
  // key. Throws ImageFault for an image that an operation does not accept: it is smaller than a
  // crop, or would become empty or larger than an image may be (is_plausible). `image` must not be
  // used then.
  void apply(Image& image, const DrawKey& key, WorkImage& work) const;

 private:
  struct Operation {
    std::string name;
    std::string arguments;  // JSON
    std::shared_ptr<const ImageTransform> transform;
  };
  std::vector<Operation> operations_;
};

// The key for the inference form, which gives the same result wherever an image is used: in
// training's validation, `kiln score` and `kiln transform apply`.
inline constexpr DrawKey kInferenceKey{};

// A TransformChain as training and prediction use it, divided into the part that is the same for an
// image in every epoch and the part that is drawn anew. Immutable and thread-safe.
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
