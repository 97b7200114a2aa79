// The images of one step of a stream, held in memory until they are turned into batches.
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

// Puts the images into the cache of a BatchLoader. Random augmentation is keyed by the epoch, the
// step and the image's place in the step.
class StepImages {
 public:
  // The pool must outlive this object. `step` counts from 0 within the epoch.
  StepImages(const StreamLoader::Plan& plan, LoaderThreads& pool, int epoch, std::int64_t step,
             const std::vector<Arrival>& images);

  BatchLoader& loader() { return *loader_; }
  std::size_t bytes() const { return bytes_; }
  std::vector<BadImage> take_faults();

 private:
  Dataset set_;
  std::vector<std::uint32_t> numbers_;  // numbers of the images, in order of arrival
  std::vector<std::string> faults_;     // faults known before decoding
  std::size_t bytes_ = 0;
  ImageCache cache_;
  std::optional<BatchLoader> loader_;  // last, since it uses the others
};

}  // namespace kiln
