// Runs a model over datasets, batch by batch and in image order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "parallel/device/device.h"
#include "predict/predictor.h"

namespace kiln {

// One image of a batch.
struct BatchImage {
  std::uint32_t index = 0;         // index in the set
  std::optional<std::size_t> row;  // row of the logits; empty: the image is bad
  std::string fault;               // why it is bad, or what is damaged
  std::uint64_t hash = 0;          // content_hash() of its bytes; 0: they could not be read
};

// The fault of an image whose logits are not finite.
inline constexpr const char* kNoNumberFault = "the network's output for it is not a number";

struct PredictedBatch {
  std::uint32_t first = 0;  // index of the first of `images.nominal` images, bad or not
  const HostBatch& images;  // without labels and pixels
  at::Tensor logits;  // [images.count, num_classes], float32 on the CPU; undefined if count is 0
  std::vector<BadImage> faults;       // in the order of the images
  std::vector<std::uint64_t> hashes;  // of all images; as BatchImage::hash

  // All images of the batch, bad or not.
  std::vector<BatchImage> each() const;
};

// Images `first` to `end` - 1 of a set.
struct ImageRange {
  std::uint32_t first = 0, end = std::numeric_limits<std::uint32_t>::max();
};

// Loads images ahead on its own threads. Used by one thread.
class Predictions {
 public:
  struct Options {
    Device device;
    int batch_size = 1;
    int loader_threads = 0;  // 0: chosen automatically
    int num_processors = 0;  // that this process is to use; 0: all that it may use
    std::function<void(const std::string& text)> warn;
  };

  Predictions(Predictor& predictor, Options options);

  // Calls `use` with each batch of the range, in order; on a GPU one batch late. If the model does
  // not specify its image size, the size of the first image of the first set is used. Throws Error
  // kInvalidDataset if that is too small, and what BatchLoader::next() and `use` throw.
  void for_each(Dataset& set, const std::function<void(const PredictedBatch&)>& use,
                ImageRange range = {});

  // The transform applied to images; valid once for_each() has started.
  const TransformSpec& pixels() const { return pixels_; }

 private:
  void open(const Dataset& set);

  Predictor& predictor_;
  const Options options_;
  TransformSpec pixels_;
  HostBatchLayout layout_;
  std::unique_ptr<LoaderThreads> pool_;
  std::unique_ptr<DeviceUploader> uploader_;
};

}  // namespace kiln
