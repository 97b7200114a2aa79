// The images of one step of a stream: in memory, and on their way to batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "data/loader/image_cache.h"
#include "data/stream/shuffle_buffer.h"
#include "data/stream/stream_loader.h"

namespace kiln {

// A BatchLoader finds them in its cache. Its random augmentation is keyed by the epoch, the step
// and the place in it.
class StepImages {
 public:
  // The pool must outlive it. `step` counts from 0 in the epoch.
  StepImages(const StreamLoader::Plan& plan, LoaderThreads& pool, int epoch, std::int64_t step,
             const std::vector<Arrival>& images);

  BatchLoader& loader() { return *loader_; }
  std::size_t bytes() const { return bytes_; }
  std::vector<BadImage> take_faults();

 private:
  Dataset set_;
  std::vector<std::uint32_t> numbers_;  // of the images, as they came
  std::vector<std::string> faults_;     // that were known before
  std::size_t bytes_ = 0;
  ImageCache cache_;
  std::optional<BatchLoader> loader_;  // last: it uses the others
};

}  // namespace kiln
