// Datasets -> what a model says of their images, batch by batch and in their order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
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
  std::uint32_t index = 0;         // in the set
  std::optional<std::size_t> row;  // of the logits; empty: it is bad
  std::string fault;               // why it is bad, or what of it is damaged
};

// Of an image whose logits are not finite.
inline constexpr const char* kNoNumberFault = "the network's output for it is not a number";

struct PredictedBatch {
  std::uint32_t first = 0;  // image of the set; `images.nominal` of them follow, bad or not
  const HostBatch& images;
  at::Tensor logits;  // [images.count, num_classes], float32 on the CPU; undefined if count is 0
  std::vector<BadImage> faults;  // in the order of the images

  // All of them, bad or not.
  std::vector<BatchImage> each() const;
};

// Of the batches of a set that begin with image `first`: number `index`, and every `stride`-th from
// there on.
struct BatchShare {
  std::uint32_t first = 0;
  std::size_t index = 0, stride = 1;
};

// Loads ahead with threads of its own. Used by one thread.
class Predictions {
 public:
  struct Options {
    Device device;
    int batch_size = 1;
    int loader_threads = 0;  // 0: chosen
    int num_processors = 0;  // that are this process's; 0: all that it may use
    std::function<void(const std::string& text)> warn;
  };

  Predictions(Predictor& predictor, Options options);

  // Calls `use` with each batch of the share. A model that does not say how large its images are
  // takes the size of the first one, of the first set. Throws Error kInvalidDataset if that is too
  // small, and what BatchLoader::next() and `use` throw.
  void for_each(Dataset& set, const std::function<void(const PredictedBatch&)>& use,
                BatchShare share = {});

  // How images become pixels, once for_each() has begun.
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
