#include "predict/inference.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "parallel/processors/processors.h"

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

// All images of a batch; `first` is the index of its first one.
std::vector<BatchImage> images_of(const HostBatch& batch, std::uint32_t first,
                                  std::vector<BadImage> faults, const SampleTable& samples) {
  std::vector<BatchImage> all;
  std::size_t row = 0;
  auto fault = faults.begin();
  for (std::uint32_t i = first; i < first + static_cast<std::uint32_t>(batch.nominal); ++i) {
    BatchImage& image = all.emplace_back();
    image.index = i;
    image.hash = samples.hash(i);
    if (fault != faults.end() && fault->sample == i) image.fault = std::move((fault++)->fault);
    if (row < batch.samples.size() && batch.samples[row] == i) image.row = row++;
  }
  return all;
}

// A PredictedBatch whose logits may still be computed.
struct QueuedBatch {
  std::vector<BatchImage> images;
  std::optional<QueuedTensor> logits = {};

  void pass_to(const std::function<void(const PredictedBatch&)>& use) {
    use({std::move(images), logits ? logits->take() : at::Tensor()});
  }
};

constexpr long long kFaultsNamed = 10;

}  // namespace

Inference::Inference(const PredictionConfig& config, int place, int num_on_host)
    : config_(config),
      num_processors_(std::max(1, usable_cpus() / num_on_host)),
      device_(choose_device(config.device, place)),
      precision_(choose_precision(config.precision, units_of(device_))) {
  keep_freed_memory();
  use_compute_threads(config.threads > 0 ? config.threads : num_processors_);
  set_tf32(precision_.precision);
}

LoaderThreadCount Inference::loader_threads() const {
  return choose_loader_threads(config_.loader_threads, num_processors_, device_.is_cuda);
}

Predictor Inference::open(const std::filesystem::path& model) const {
  return {model, torch_device(), precision()};
}

ImageFeed::ImageFeed(const Inference& inference, const TransformSpec& pixels,
                     const Normalization& normalization, Log& log)
    : pixels_(pixels),
      batch_size_(inference.batch_size()),
      layout_(host_batch_layout(inference.torch_device(), normalization,
                                [device = inference.device()](std::size_t bytes) {
                                  return pinned_memory(device, bytes);
                                })),
      pool_({.num_decoders =
                 std::max(inference.loader_threads().first, inference.loader_threads().most),
             .new_buffer = layout_.new_buffer,
             .warn = [&log](const std::string& text) { log.warning(text); }}),
      uploader_(inference.torch_device(), pixels.output, batch_size_, normalization) {}

BatchLoader ImageFeed::open(Dataset& set, ImageRange range) {
  const auto end = std::min<std::size_t>(range.end, set.samples.size());
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = range.first; i < end; ++i) order.push_back(i);
  return {set,
          pool_,
          {.order = std::move(order),
           .batch_size = batch_size_,
           .pixels = pixels_,
           .scaling = layout_.scaling,
           .num_slots = 4 + pool_.num_decoders() / batch_size_}};
}

Predictions::Predictions(Predictor& predictor, const Inference& inference, Log& log)
    : predictor_(predictor), inference_(inference), log_(log) {}

TransformSpec Predictions::pixels_for(const Dataset& set) const {
  if (const auto stored = predictor_.pixels()) {
    predictor_.require_large_enough(stored->output);
    return *stored;
  }
  const auto size = first_size(set);
  if (size) predictor_.require_large_enough(*size);
  return {.output = size.value_or(kAnySize)};
}

void Predictions::for_each(Dataset& set, const std::function<void(const PredictedBatch&)>& use,
                           ImageRange range) {
  if (!feed_) {
    pixels_ = pixels_for(set);
    feed_.emplace(inference_, pixels_, predictor_.normalization(), log_);
  }
  if (range.first >= std::min<std::size_t>(range.end, set.samples.size())) return;
  BatchLoader loader = feed_->open(set, range);
  // A GPU gets the next batch before the results of this one are used.
  std::optional<QueuedBatch> queued;
  for (std::uint32_t first = range.first; const HostBatch* batch = loader.next();) {
    QueuedBatch next{images_of(*batch, first, loader.take_faults(), set.samples)};
    first += static_cast<std::uint32_t>(batch->nominal);
    if (batch->count > 0) next.logits = predictor_.logits(feed_->uploader().upload(*batch).images);
    if (queued) queued->pass_to(use);
    queued = std::move(next);
    if (!inference_.device().is_cuda) std::exchange(queued, {})->pass_to(use);
  }
  if (queued) queued->pass_to(use);
}

void PredictionFaults::note(const std::string& path, const std::string& fault, bool is_bad) {
  ++(is_bad ? num_bad_ : num_damaged_);
  const std::string text = "'" + path + "': " + fault;
  if (is_bad && num_bad_ <= kFaultsNamed) first_ += (num_bad_ == 1 ? "" : "; ") + text;
  const long long count = num_bad_ + num_damaged_;
  if (count <= kFaultsNamed)
    log_.warning((is_bad ? "bad image " : "damaged image ") + text +
                 (is_bad ? "" : " (used as far as it can be decoded)"));
  if (count == kFaultsNamed + 1)
    log_.warning("more bad or damaged images follow; each has its row");
}

void PredictionFaults::resume(long long num_bad, long long num_damaged, std::string first_bad) {
  num_bad_ = num_bad;
  num_damaged_ = num_damaged;
  first_ = std::move(first_bad);
}

void PredictionFaults::check(long long num_images) const {
  const std::int64_t allowed = allowed_.of(num_images);
  if (num_bad_ <= allowed) return;
  throw Error(
      ErrorCode::kInvalidDataset,
      formatted("At least %lld images are bad, and --max-bad-images allows %lld: ", num_bad_,
                static_cast<long long>(allowed)) +
          first_ + ". Fix or remove them, or allow more (for example --max-bad-images 10%).");
}

void PredictionFaults::require_any_good(long long num_images) const {
  if (num_bad_ < num_images) return;
  throw Error(ErrorCode::kInvalidDataset,
              "None of the images could be classified: " + first_ + ".");
}

}  // namespace kiln
