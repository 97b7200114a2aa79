#include "predict/job.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "model/operators/autocast.h"
#include "parallel/processors/processors.h"
#include "train/tensor_memory.h"

namespace kiln {
namespace {

constexpr ImageSize kAnySize{224, 224};
constexpr long long kFaultsNamed = 10;

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

// All images of a batch, without answers; `first` is the index of its first one.
std::vector<AnsweredImage> images_of(const HostBatch& batch, std::uint32_t first,
                                     std::vector<BadImage> faults, const SampleTable& samples) {
  std::vector<AnsweredImage> all;
  std::size_t row = 0;
  auto fault = faults.begin();
  for (std::uint32_t i = first; i < first + static_cast<std::uint32_t>(batch.nominal); ++i) {
    AnsweredImage& image = all.emplace_back();
    image.index = i;
    image.hash = samples.hash(i);
    image.score.path = samples.file_name(i);
    if (fault != faults.end() && fault->sample == i)
      image.score.fault = std::move((fault++)->fault);
    if (row < batch.samples.size() && batch.samples[row] == i) image.row = row++;
  }
  return all;
}

void add_answers(AnsweredBatch& batch, std::vector<Score> answers) {
  for (AnsweredImage& image : batch.images) {
    if (!image.row) continue;
    Score& answer = answers[*image.row];
    answer.path = std::move(image.score.path);
    if (answer.fault.empty()) answer.fault = std::move(image.score.fault);
    image.score = std::move(answer);
  }
}

}  // namespace

PredictionJob::PredictionJob(const PredictionConfig& its_config, Log& its_log, int place,
                             int num_on_host)
    : config(its_config),
      log(its_log),
      num_processors(std::max(1, usable_cpus() / num_on_host)),
      device(choose_device(config.device, place)),
      precision(choose_precision(config.precision, units_of(device))) {
  keep_freed_memory();
  keep_tensor_memory();
  use_compute_threads(config.threads > 0 ? config.threads : num_processors);
  use_precision(precision.precision);
}

int PredictionJob::num_decoders() const {
  const LoaderThreadCount count =
      choose_loader_threads(config.loader_threads, num_processors, device.is_cuda);
  return std::max(count.first, count.most);
}

HostBatchLayout PredictionJob::batch_layout(const Normalization& normalization) const {
  return host_batch_layout(
      torch_device(device), normalization,
      [device = device](std::size_t bytes) { return pinned_memory(device, bytes); });
}

void PredictionJob::open_model(const std::filesystem::path& folder, const std::string& one_label) {
  models.emplace_back(folder, torch_device(device), precision.precision);
  models.back().rule->require_one_label(one_label);
}

void PredictionJob::read_images(const std::vector<std::string>& paths,
                                const std::string& files_from) {
  RecordOptions records = config.records;
  if (!models.empty()) {
    const ModelDirectory& model = models.front().directory;
    records.task = task_of_labels(model.spec.task, model.labels);
  }
  const std::string path = paths.empty() ? "" : paths.front();
  if (paths.size() > 1) {
    images = read_image_files(paths, "Images");
  } else if (files_from.empty()) {
    images = read_every_image(path, "Images", records);
  } else {
    list.emplace(files_from, path);
    images.kind = Dataset::Kind::kFileList;
  }
  report_unused(records, images);
}

void PredictionJob::warn_of_precision() const {
  if (!precision.warning.empty()) log.warning(precision.warning);
}

void PredictionJob::log_model(const Predictor& model) const {
  log.info("model:     " + model.directory.spec.model_name + ", " +
           plural(std::ssize(model.directory.labels), "class", "classes") + ", " +
           precision_name(precision.precision) + ", " + device.description);
  warn_of_precision();
  for (const std::string& note : model.notes) log.warning(note);
}

ImageFeed::ImageFeed(const PredictionJob& job, const TransformSpec& pixels,
                     const Normalization& normalization)
    : pixels_(pixels),
      batch_size_(job.config.batch_size),
      layout_(job.batch_layout(normalization)),
      pool_({.num_decoders = job.num_decoders(),
             .new_buffer = layout_.new_buffer,
             .warn = [&log = job.log](const std::string& text) { log.warning(text); }}),
      uploader_(torch_device(job.device), pixels.output, batch_size_, normalization) {}

std::unique_ptr<BatchLoader> ImageFeed::open(Dataset& set, ImageRange range) {
  const auto end = std::min<std::size_t>(range.end, set.samples.size());
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = range.first; i < end; ++i) order.push_back(i);
  uploader_.expect(static_cast<std::int64_t>(order.size()) / batch_size_);
  return load_batches(set, pool_,
                      {.order = std::move(order),
                       .batch_size = batch_size_,
                       .pixels = pixels_,
                       .scaling = layout_.scaling,
                       .num_slots = 4 + pool_.num_decoders() / batch_size_});
}

TransformSpec Predictions::pixels_for(const Dataset& set) const {
  if (const auto stored = model_.pixels) {
    model_.require_large_enough(stored->output);
    return *stored;
  }
  const auto size = first_size(set);
  if (size) model_.require_large_enough(*size);
  return {.output = size.value_or(kAnySize)};
}

void Predictions::for_each(Dataset& set, const std::function<void(AnsweredBatch&)>& use,
                           ImageRange range) {
  if (!feed_) {
    pixels_ = pixels_for(set);
    feed_.emplace(job_, pixels_, model_.normalization);
  }
  if (range.first >= std::min<std::size_t>(range.end, set.samples.size())) return;
  const std::unique_ptr<BatchLoader> loader = feed_->open(set, range);
  const KeptCasts kept_casts;
  // A GPU gets the next batch before the results of this one are used.
  AnsweredBatch waiting;
  std::optional<QueuedOutputs> its_outputs;
  const auto pass_on = [&] {
    if (waiting.images.empty()) return;
    AnsweredBatch batch = std::exchange(waiting, {});
    if (its_outputs) {
      batch.outputs = its_outputs->take();
      add_answers(batch, model_.answers(batch.outputs, plan_));
    }
    use(batch);
  };
  for (std::uint32_t first = range.first; const HostBatch* batch = loader->next();) {
    AnsweredBatch next{images_of(*batch, first, loader->take_faults(), set.samples), {}};
    first += static_cast<std::uint32_t>(batch->nominal);
    std::optional<QueuedOutputs> outputs;
    if (batch->count > 0) outputs = model_.outputs(feed_->uploader().upload(*batch).images, plan_);
    pass_on();
    waiting = std::move(next);
    its_outputs = std::move(outputs);
    if (!job_.device.is_cuda) pass_on();
  }
  pass_on();
}

void PredictionFaults::add(const std::string& path, const std::string& fault, bool is_bad) {
  ++(is_bad ? num_bad : num_damaged);
  const std::string text = "'" + path + "': " + fault;
  if (is_bad && num_bad <= kFaultsNamed) first_bad += (num_bad == 1 ? "" : "; ") + text;
  const long long count = num_bad + num_damaged;
  if (count <= kFaultsNamed)
    log_.warning((is_bad ? "bad image " : "damaged image ") + text +
                 (is_bad ? "" : " (used as far as it can be decoded)"));
  if (count == kFaultsNamed + 1)
    log_.warning("more bad or damaged images follow; each has its row");
}

void PredictionFaults::check(long long num_images) const {
  const std::int64_t allowed = allowed_.of(num_images);
  if (num_bad <= allowed) return;
  throw Error(
      ErrorCode::kInvalidDataset,
      "At least " + plural(num_bad, "image is", "images are") +
          formatted(" bad, and --max-bad-images allows %lld: ", static_cast<long long>(allowed)) +
          first_bad + ". Fix or remove them, or allow more (for example --max-bad-images 10%).");
}

void PredictionFaults::require_any_good(long long num_images) const {
  if (num_bad < num_images) return;
  throw Error(ErrorCode::kInvalidDataset,
              "None of the images could be classified: " + first_bad + ".");
}

}  // namespace kiln
