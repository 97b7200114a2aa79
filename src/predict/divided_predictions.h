// Predictions of all ranks of a job, gathered in the order of the images.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/ranks/world.h"
#include "predict/predictions.h"

namespace kiln {

// The ranks take the batches in turn. These are the batches of one process, so that their
// predictions are, too, on machines of one kind. Memory is level: a batch of each rank. Used by one
// thread.
class DividedPredictions {
 public:
  // The world must outlive it.
  DividedPredictions(World& world, Predictor& predictor, const Predictions::Options& options);

  // Calls `use` on rank 0 with each batch from image `first` on. A collective: all ranks have the
  // same set. Throws as Predictions::for_each().
  void for_each(Dataset& set, const std::function<void(const PredictedBatch&)>& use,
                std::uint32_t first = 0);

  const TransformSpec& pixels() const { return predictions_.pixels(); }

 private:
  World& world_;
  const std::size_t batch_size_;
  Predictions predictions_;
};

// A batch of another rank; without pixels and labels.
struct SentBatch {
  std::uint32_t first = 0;
  HostBatch images;
  at::Tensor logits;
  std::vector<BadImage> faults;
};

// For a rank of the same build.
std::string pack_batch(const PredictedBatch& batch);
// Throws InternalError for other bytes than pack_batch() gives.
SentBatch unpack_batch(std::string_view bytes);

}  // namespace kiln
