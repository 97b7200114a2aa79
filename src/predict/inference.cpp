#include "predict/inference.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"
#include "model/weights/starting_weights.h"
#include "parallel/processors/processors.h"
#include "record/run_file.h"
#include "store/checkpoint.h"
#include "train/tensor_memory.h"

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

namespace fs = std::filesystem;

// Pixels from 0 to 1: the designer's default if the directory does not specify a normalization.
constexpr Normalization kUnchanged{{0, 0, 0}, {1, 1, 1}};
constexpr int kMaxFolders = 100;  // to search for images

bool has_images(const fs::path& folder) {
  const FolderEntries entries(folder);
  return std::any_of(entries.begin(), entries.end(), [](const FolderEntry& entry) {
    return has_image_extension(entry.name) || has_archive_extension(entry.name);
  });
}

bool is_image_folder(const fs::path& folder) {
  try {
    if (has_images(folder)) return true;
    int num_folders = 0;
    for (const FolderEntry& entry : FolderEntries(folder)) {
      if (entry.type != fs::file_type::directory) continue;
      if (has_images(folder / entry.name)) return true;
      if (++num_folders == kMaxFolders) break;
    }
  } catch (const fs::filesystem_error&) {  // reported when the model is read
  }
  return false;
}

// Returns what a folder without a model is, as the predicate of a message. Empty if it is unknown,
// or if the folder may hold a model.
std::string kind_of(const fs::path& folder) {
  if (!is_folder(folder)) return "";
  if (is_checkpoint(folder)) return "holds checkpoints of a run, for resuming training";
  if (is_there(folder / kMetaFile)) return "";  // the reader reports its type
  if (is_there(folder / kRunFileName)) return "is the log folder of a run";
  return is_image_folder(folder) ? "is a folder of images" : "";
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& what,
                         ErrorCode code = ErrorCode::kInvalidModelDirectory) {
  throw Error(code, "--trained-model-path " + quoted_path(folder) + " " + what +
                        ". Give the folder that `kiln train` wrote to its --trained-model-path." +
                        did_you_mean_path(folder));
}

ModelDirectory read_trained(const fs::path& folder) {
  std::error_code failure;
  if (fs::status(folder, failure).type() == fs::file_type::not_found)
    refuse(folder, "does not exist", ErrorCode::kUserError);
  if (const std::string kind = kind_of(folder); !kind.empty())
    refuse(folder, kind + ", not a model");
  ModelDirectory directory = read_model_directory(folder);
  if (!directory.spec.num_classes)
    refuse(folder, "is an untrained model, as written by `kiln init-model`");
  return directory;
}

Normalization normalization_of(const ModelDirectory& directory) {
  if (directory.preprocessing) return directory.preprocessing->normalization;
  return directory.spec.normalization.value_or(kUnchanged);
}

// Returns a fingerprint of the model. `directory` must still hold its weights.
std::string print_of_trained(const ModelDirectory& directory) {
  ContentHash hash(0);
  const auto add = [&](const std::string& text) {
    hash.add(std::to_string(text.size()) + ":");
    hash.add(text);
  };
  for (const StoredTensor& tensor : directory.state) {
    add(tensor.name);
    add(tensor.bytes);
  }
  for (const std::string& label : directory.labels) add(label);
  for (const auto& values : {normalization_of(directory).mean, normalization_of(directory).std})
    for (const double value : values) add(formatted("%a", value));
  add(directory.preprocessing ? format_preprocessing(*directory.preprocessing) : "");
  add(format_calibration(directory.calibration));
  return directory.spec.model_name + " " + hex_digits(hash.value());
}

}  // namespace

Predictor::Predictor(const fs::path& folder, const at::Device& device, Precision precision)
    : directory_(read_trained(folder)),
      print_(print_of_trained(directory_)),
      normalization_(normalization_of(directory_)),
      precision_(precision),
      model_(loaded_model(directory_, (folder / directory_.spec.model_file).string())) {
  directory_.state = {};
  if (directory_.preprocessing)
    pixels_ = pixels_of(*directory_.preprocessing, (folder / kPreprocessingFile).string());
  model_->prepare(device);
  model_->fuse();
  rule_ = rule_of(spec(), calibration());
  if (directory_.labels.empty()) {
    for (int id = 0; id < *spec().num_classes; ++id)
      directory_.labels.push_back(std::to_string(id));
    notes_.push_back(formatted("The model has no %s: its classes are named 0, 1 and so on.",
                               std::string(kLabelMapFile).c_str()));
  }
  if (!is_there(folder / kCalibrationFile))
    notes_.push_back(formatted("The model has no %s: its confidence is not calibrated.",
                               std::string(kCalibrationFile).c_str()));
  if (!directory_.preprocessing)
    notes_.push_back(
        formatted("The model has no %s: images are resized to the size of the first one, which "
                  "should be that of the training images.",
                  std::string(kPreprocessingFile).c_str()));
}

TransformSpec pixels_of(const Preprocessing& stored, const std::string& where) {
  if (!stored.transforms.empty()) {
    Problems problems;
    const TransformChain chain = TransformChain::parse(stored.transforms, where, problems);
    if (!problems.empty())
      throw Error(ErrorCode::kInvalidModelDirectory, problems.errors().front().message());
    return {.exif = stored.exif,
            .output = {stored.height, stored.width},
            .chain = inference_chain(chain)};
  }
  return {.exif = stored.exif,
          .output = {stored.height, stored.width},
          .fit = stored.fit,
          .short_side = stored.resize_short_side,
          .keep_exact = stored.keep_exact_size,
          .fill = stored.fill};
}

void Predictor::require_large_enough(ImageSize size) const {
  known_network(spec().model_name)
      .require_size(size.height, size.width,
                    "give images of the size that the model was trained on");
}

QueuedTensor::QueuedTensor(const at::Tensor& there) : host_(there) {
  if (!there.is_cuda()) return;
  host_ = at::empty_like(there, at::TensorOptions(at::kCPU).pinned_memory(true));
  host_.copy_(there, /*non_blocking=*/true);
  arrival_.emplace(there.device().type());
  arrival_->record(c10::impl::VirtualGuardImpl(there.device().type()).getStream(there.device()));
}

at::Tensor QueuedTensor::take() {
  if (arrival_) arrival_->synchronize();
  return std::move(host_);
}

QueuedTensor Predictor::logits(const at::Tensor& images) {
  const at::InferenceMode inference;
  return QueuedTensor(forward(*model_, images, precision_).to(at::kFloat).contiguous());
}

at::Tensor Predictor::class_maps(const at::Tensor& images, const std::vector<int>& classes) {
  return model_->class_maps(images, classes).cpu().contiguous();
}

Inference::Inference(const PredictionConfig& config, int place, int num_on_host)
    : config_(config),
      num_processors_(std::max(1, usable_cpus() / num_on_host)),
      device_(choose_device(config.device, place)),
      precision_(choose_precision(config.precision, units_of(device_))) {
  keep_freed_memory();
  keep_tensor_memory();
  use_compute_threads(config.threads > 0 ? config.threads : num_processors_);
  use_precision(precision_.precision);
}

LoaderThreadCount Inference::loader_threads() const {
  return choose_loader_threads(config_.loader_threads, num_processors_, device_.is_cuda);
}

Predictor Inference::open(const std::filesystem::path& model) const {
  return {model, torch_device(), precision()};
}

HostBatchLayout Inference::batch_layout(const Normalization& normalization) const {
  return host_batch_layout(torch_device(), normalization, [device = device_](std::size_t bytes) {
    return pinned_memory(device, bytes);
  });
}

ImageFeed::ImageFeed(const Inference& inference, const TransformSpec& pixels,
                     const Normalization& normalization, Log& log)
    : pixels_(pixels),
      batch_size_(inference.batch_size()),
      layout_(inference.batch_layout(normalization)),
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
