// Predictions divided among the ranks of a job and gathered in image order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/ranks/world.h"
#include "predict/predictions.h"

namespace kiln {

// The ranks take batches in turn. The batches are the same as with a single process, so on machines
// of the same kind the predictions are too. Memory use is constant: one batch per rank. One thread.
class DividedPredictions {
 public:
  // The world must outlive it.
  DividedPredictions(World& world, Predictor& predictor, const Predictions::Options& options);

  // Calls `use` on rank 0 with each batch, starting at image `first`. A collective; all ranks must
  // have the same set. Throws as Predictions::for_each().
  void for_each(Dataset& set, const std::function<void(const PredictedBatch&)>& use,
                std::uint32_t first = 0);

  const TransformSpec& pixels() const { return predictions_.pixels(); }

 private:
  World& world_;
  const std::size_t batch_size_;
  Predictions predictions_;
};

// A batch received from another rank, without pixels and labels.
struct SentBatch {
  std::uint32_t first = 0;
  HostBatch images;
  at::Tensor logits;
  std::vector<BadImage> faults;
  std::vector<std::uint64_t> hashes;
};

// Serializes a batch for a rank that runs the same build.
std::string pack_batch(const PredictedBatch& batch);
// Throws InternalError if `bytes` is not the output of pack_batch().
SentBatch unpack_batch(std::string_view bytes);

}  // namespace kiln
