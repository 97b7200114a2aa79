#include "predict/predictions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/system.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "data/loader/loader_threads.h"
#include "train/precision.h"

namespace kiln {
namespace {

constexpr ImageSize kAnySize{224, 224};

// Returns the size of the first image that can be decoded, or nullopt if none can be.
std::optional<ImageSize> first_size(const Dataset& set) {
  std::string bytes;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    try {
      read_image_bytes(set, i, bytes);
      return decode_image(bytes, Exif::kIgnore).image.size;
    } catch (const ImageFault&) {  // reported with its batch
    }
  }
  return std::nullopt;
}

HostBatch without_pixels(const HostBatch& batch) {
  HostBatch copy;
  copy.samples = batch.samples;
  copy.count = batch.count;
  copy.nominal = batch.nominal;
  return copy;
}

// A PredictedBatch whose logits may still be computed.
struct QueuedBatch {
  std::uint32_t first;
  HostBatch images;
  std::vector<BadImage> faults;
  std::vector<std::uint64_t> hashes = {};
  std::optional<QueuedTensor> logits = {};

  void pass_to(const std::function<void(const PredictedBatch&)>& use) {
    use({first, images, logits ? logits->take() : at::Tensor(), std::move(faults),
         std::move(hashes)});
  }
};

}  // namespace

std::vector<BatchImage> PredictedBatch::each() const {
  std::vector<BatchImage> all;
  std::size_t row = 0;
  auto fault = faults.begin();
  for (std::uint32_t i = first; i < first + static_cast<std::uint32_t>(images.nominal); ++i) {
    BatchImage& image = all.emplace_back();
    image.index = i;
    image.hash = hashes[i - first];
    if (fault != faults.end() && fault->sample == i) image.fault = (fault++)->fault;
    if (row < images.samples.size() && images.samples[row] == i) image.row = row++;
  }
  return all;
}

Predictions::Predictions(Predictor& predictor, Options options)
    : predictor_(predictor), options_(std::move(options)) {}

void Predictions::open(const Dataset& set) {
  if (const auto stored = predictor_.pixels()) {
    pixels_ = *stored;
    predictor_.require_large_enough(pixels_.output);
  } else {
    const auto size = first_size(set);
    if (size) predictor_.require_large_enough(*size);
    pixels_ = {.output = size.value_or(kAnySize)};
  }
  const at::Device place = torch_device(options_.device);
  layout_ = host_batch_layout(
      place, predictor_.normalization(),
      [device = options_.device](std::size_t bytes) { return pinned_memory(device, bytes); });
  const LoaderThreadCount threads =
      choose_loader_threads(options_.loader_threads,
                            options_.num_processors > 0 ? options_.num_processors : usable_cpus(),
                            options_.device.is_cuda);
  pool_ = std::make_unique<LoaderThreads>(
      LoaderThreads::Plan{.num_decoders = std::max(threads.first, threads.most),
                          .new_buffer = layout_.new_buffer,
                          .warn = options_.warn});
  uploader_ = std::make_unique<DeviceUploader>(place, pixels_.output, options_.batch_size,
                                               predictor_.normalization());
}

void Predictions::for_each(Dataset& set, const std::function<void(const PredictedBatch&)>& use,
                           ImageRange range) {
  if (!uploader_) open(set);
  const auto end = std::min<std::size_t>(range.end, set.samples.size());
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = range.first; i < end; ++i) order.push_back(i);
  if (order.empty()) return;
  BatchLoader loader(set, *pool_,
                     {.order = std::move(order),
                      .batch_size = options_.batch_size,
                      .pixels = pixels_,
                      .scaling = layout_.scaling,
                      .num_slots = 4 + pool_->num_decoders() / options_.batch_size});
  // A GPU gets the next batch before the results of this one are used.
  std::optional<QueuedBatch> queued;
  for (std::uint32_t first = range.first; const HostBatch* batch = loader.next();) {
    QueuedBatch next{first, without_pixels(*batch), loader.take_faults()};
    for (int i = 0; i < batch->nominal; ++i) next.hashes.push_back(set.samples.hash(first++));
    if (batch->count > 0) next.logits = predictor_.logits(uploader_->upload(*batch).images);
    if (queued) queued->pass_to(use);
    queued = std::move(next);
    if (!options_.device.is_cuda) std::exchange(queued, {})->pass_to(use);
  }
  if (queued) queued->pass_to(use);
}

}  // namespace kiln
