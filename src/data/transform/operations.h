// The operations of an image transformation: torchvision's by name, as `_transforms.json` of a
// TransformationDirectory lists them:
//
//   [["Resize", 256], ["CenterCrop", 224], ["ColorJitter", {"brightness": 0.2}]]
//
// An operation's arguments are a number, or a list in the order of its parameters, or a mapping by
// their names; names, defaults and meaning are torchvision's (0.17). A list of two numbers that
// this order refuses is the first parameter's pair: ["Resize", [224, 160]] is a height and a width,
// ["RandomRotation", [-10, 30]] a range. Images are 8-bit RGB; a gray one has three equal channels.
// Results are within 2 of torchvision's on Pillow's images, in the mean.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/image/image.h"
#include "data/transform/draw_key.h"

namespace kiln {

class ImageTransform;  // data/transform/image_transform.h: one operation, its arguments checked

// What applying needs of memory; reuse it for the next image. One thread.
class TransformMemory {
 public:
  TransformMemory();
  ~TransformMemory();
  TransformMemory(TransformMemory&&) noexcept;
  TransformMemory& operator=(TransformMemory&&) noexcept;

 private:
  friend class TransformChain;
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

// A value: copies are cheap and share what never changes. Reading one is thread-safe.
class TransformChain {
 public:
  // Of the text of `_transforms.json`. Every fault is added to `problems` as Error
  // kInvalidTransformationDirectory, which names `where` (a path), the operation and its argument:
  // no list of operations, an unknown operation or argument (with the nearest known one), values
  // out of range, operations on tensors where there is none (Normalize and RandomErasing need
  // ToTensor before them, and ToPILImage has to follow), several images made of one (FiveCrop,
  // TenCrop). What was added makes the result useless.
  static TransformChain parse(std::string_view json, const std::string& where, Problems& problems);

  // As the original's "For inference": without the operations whose name begins with "Random".
  // ColorJitter stays, and draws.
  TransformChain for_inference() const;

  // The text that parse() takes, two spaces a level, without a newline at its end: as the original
  // writes it.
  std::string to_json() const;

  // "Resize 256, CenterCrop 224, RandomHorizontalFlip"; "no operation".
  std::string summary() const;

  // The operations before the first one that draws, and the others: one after the other they are
  // the whole. (This and summary() are in image_chain.cpp.)
  std::pair<TransformChain, TransformChain> split_at_draws() const;

  bool empty() const { return operations_.empty(); }
  // Whether any operation draws, so that the key matters.
  bool is_random() const;

  // The size of the result for an image of size `whole`, or for every image. Nothing where that
  // depends on the draws, or on the image. Throws ImageFault as apply().
  std::optional<ImageSize> output_size(std::optional<ImageSize> whole = {}) const;

  // Changes pixels and size of `image`. The result depends on nothing but the chain, the pixels and
  // the key. Throws ImageFault for an image that an operation does not take: it is smaller than a
  // crop, or would become empty or larger than an image may be (is_plausible). `image` is useless
  // then.
  void apply(Image& image, const DrawKey& key, TransformMemory& memory) const;

 private:
  struct Operation {
    std::string name;
    std::string arguments;  // JSON as to_json() shows them
    std::shared_ptr<const ImageTransform> transform;
  };
  std::vector<Operation> operations_;
};

}  // namespace kiln
