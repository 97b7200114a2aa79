#include "data/stream/step_images.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kiln {
namespace {

// Returns a limit with which all images fit, whatever is lost at the ends of the cache's blocks.
std::size_t cache_bytes(const std::vector<Arrival>& images) {
  std::size_t largest = 1;
  for (const Arrival& image : images) largest = std::max(largest, image.record.bytes.size());
  return ImageCache::bytes_for(images.size(), largest);
}

}  // namespace

StepImages::StepImages(const StreamLoader::Plan& plan, LoaderThreads& pool, int epoch,
                       std::int64_t step, const std::vector<Arrival>& images)
    : cache_(CacheKind::kBytes, images.size(), cache_bytes(images)) {
  set_.root = plan.path;
  for (const Arrival& image : images) {
    const StreamRecord& record = image.record;
    const bool has_image = record.fault.empty() && !record.bytes.empty();
    cache_.keep(numbers_.size(), has_image ? record.bytes : "-");  // "-" is not an image
    bytes_ += record.bytes.size();
    set_.samples.push_back({.file_name = record.name, .label = image.label, .size = {}});
    numbers_.push_back(image.number);
    faults_.push_back(record.fault);
  }
  BatchLoader::Plan batches{
      .order = std::vector<std::uint32_t>(images.size()),
      .repeats = std::vector<std::uint32_t>(images.size(), static_cast<std::uint32_t>(step)),
      .batch_size = plan.batch_size,
      .pixels = plan.pixels_of ? plan.pixels_of(epoch) : plan.pixels,
      .scaling = plan.scaling,
      .seed = plan.seed,
      .epoch = static_cast<std::uint64_t>(epoch),
      .num_slots = plan.batches_per_step};
  std::iota(batches.order.begin(), batches.order.end(), 0U);
  loader_.emplace(set_, pool, std::move(batches), &cache_);
}

std::vector<BadImage> StepImages::take_faults() {
  std::vector<BadImage> faults = loader_->take_faults();
  for (BadImage& fault : faults) {
    fault.name = set_.samples.file_name(fault.sample);
    if (!faults_[fault.sample].empty()) fault.fault = faults_[fault.sample];
    fault.sample = numbers_[fault.sample];
  }
  return faults;
}

}  // namespace kiln
