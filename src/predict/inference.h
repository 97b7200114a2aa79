// Inference with a trained model: the model, how a command computes, images on their way to the
// network, and its answers, batch by batch in image order.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "data/loader/loader_threads.h"
#include "data/transform/image_pipeline.h"
#include "model/image_model.h"
#include "parallel/device/device.h"
#include "predict/answer_rule.h"
#include "record/vocabulary.h"
#include "store/model_directory.h"
#include "train/precision.h"

namespace kiln {

// The image transform of validation, as stored in a model directory. `where` is its path, for the
// Error kInvalidModelDirectory thrown if the stored operations are invalid.
TransformSpec pixels_of(const Preprocessing& stored, const std::string& where);

// A tensor on its way to the CPU. On a GPU nothing waits for it before take(), so the GPU can begin
// with later work; on a CPU it is there at once.
class QueuedTensor {
 public:
  explicit QueuedTensor(const at::Tensor& there);
  at::Tensor take();

 private:
  at::Tensor host_;
  std::optional<c10::Event> arrival_;
};

// A trained model: images, prepared as for validation -> logits of its classes. Not thread-safe.
class Predictor {
 public:
  // Reads the ModelDirectory of a trained model, written by this program or the designer's. Throws
  // Error kInvalidModelDirectory or kUserError, saying if possible what the folder is instead.
  Predictor(const std::filesystem::path& folder, const at::Device& device, Precision precision);

  const ModelSpec& spec() const { return directory_.spec; }
  const std::vector<std::string>& labels() const { return directory_.labels; }  // by class id
  const Normalization& normalization() const { return normalization_; }
  // A fingerprint of the model's network, weights, classes, image transform and calibration.
  const std::string& print() const { return print_; }
  // Sentences for warnings.
  const std::vector<std::string>& notes() const { return notes_; }

  // The image transform; empty if the directory does not store it. Images must then already have
  // the size used in training.
  const std::optional<TransformSpec>& pixels() const { return pixels_; }
  // Throws Error kInvalidDataset if images of this size are too small for the network.
  void require_large_enough(ImageSize size) const;

  // What the directory stores, without the weights.
  const ModelDirectory& directory() const { return directory_; }
  // Fused, but plain outside of InferenceMode.
  ImageModel& network() { return *model_; }

  // Has temperature 1 if the directory stores no calibration.
  const Calibration& calibration() const { return directory_.calibration; }
  // Empty if the directory does not store them.
  const std::optional<SeenImages>& seen_images() const { return directory_.seen_images; }

  // What its logits mean.
  const AnswerRule& rule() const { return *rule_; }

  // Normalized images [N, 3, H, W] on the device -> float32 logits [N, num_classes].
  QueuedTensor logits(const at::Tensor& images);

  // ImageModel::class_maps() of these images, as float32 on the CPU. Always computed in float32,
  // whatever the precision of the logits.
  at::Tensor class_maps(const at::Tensor& images, const std::vector<int>& classes);

 private:
  ModelDirectory directory_;  // without the weights
  std::string print_;
  Normalization normalization_;
  std::optional<TransformSpec> pixels_;
  Precision precision_;
  std::unique_ptr<ImageModel> model_;
  std::unique_ptr<const AnswerRule> rule_;
  std::vector<std::string> notes_;
};

// One image of a batch.
struct BatchImage {
  std::uint32_t index = 0;         // index in the set
  std::optional<std::size_t> row;  // row of the logits; empty: the image is bad
  std::string fault;               // why it is bad, or what is damaged
  std::uint64_t hash = 0;          // content_hash() of its bytes; 0: they could not be read
};

// The fault of an image whose logits are not finite.
inline constexpr const char* kNoNumberFault = "the network's output for it is not a number";

struct PredictedBatch {
  std::vector<BatchImage> images;  // in order, bad or not
  at::Tensor logits;  // [N, num_classes], float32 on the CPU; undefined if all images are bad
};

// Images `first` to `end` - 1 of a set.
struct ImageRange {
  std::uint32_t first = 0, end = std::numeric_limits<std::uint32_t>::max();
};

// How a command computes with a trained network, as its options ask.
class Inference {
 public:
  // Chooses device and precision, and sets the process's compute threads. Create it once, before
  // the first tensor operation. The process is number `place` of `num_on_host` that share the
  // host's devices and processors. Throws Error kUserError.
  explicit Inference(const PredictionConfig& config, int place = 0, int num_on_host = 1);

  const Device& device() const { return device_; }
  at::Device torch_device() const { return kiln::torch_device(device_); }
  Precision precision() const { return precision_.precision; }
  const std::string& precision_warning() const { return precision_.warning; }  // empty: none
  // Of the images for the network.
  int batch_size() const { return config_.batch_size; }
  LoaderThreadCount loader_threads() const;
  HostBatchLayout batch_layout(const Normalization& normalization) const;

  // Throws what the constructor of Predictor throws.
  Predictor open(const std::filesystem::path& model) const;

 private:
  const PredictionConfig config_;
  const int num_processors_;
  const Device device_;
  const PrecisionChoice precision_;
};

// Brings images to a network in their order, loaded ahead on its own threads. Used by one thread.
class ImageFeed {
 public:
  // The log must outlive it.
  ImageFeed(const Inference& inference, const TransformSpec& pixels,
            const Normalization& normalization, Log& log);

  // The batches of a range. The feed and the set must outlive the loader.
  BatchLoader open(Dataset& set, ImageRange range = {});
  DeviceUploader& uploader() { return uploader_; }

 private:
  const TransformSpec pixels_;
  const int batch_size_;
  const HostBatchLayout layout_;
  LoaderThreads pool_;
  DeviceUploader uploader_;
};

// A model's answers for images. Used by one thread.
class Predictions {
 public:
  // The arguments must outlive it.
  Predictions(Predictor& predictor, const Inference& inference, Log& log);

  // Calls `use` with each batch of the range, in order; on a GPU one batch late. If the model does
  // not specify its image size, the size of the first image of the first set is used. Throws Error
  // kInvalidDataset if that is too small, and what BatchLoader::next() and `use` throw.
  void for_each(Dataset& set, const std::function<void(const PredictedBatch&)>& use,
                ImageRange range = {});

  // The transform applied to images; valid once for_each() has started.
  const TransformSpec& pixels() const { return pixels_; }

 private:
  TransformSpec pixels_for(const Dataset& set) const;

  Predictor& predictor_;
  const Inference& inference_;
  Log& log_;
  TransformSpec pixels_;
  std::optional<ImageFeed> feed_;
};

// Counts faulty images, names the first ones in the log, and fails if more are bad than allowed.
// One thread; the log must outlive it.
class PredictionFaults {
 public:
  PredictionFaults(Allowance allowed, Log& log) : allowed_(allowed), log_(log) {}

  // A bad image has no answer; a damaged one is used as far as it can be decoded.
  void note(const std::string& path, const std::string& fault, bool is_bad);

  // Throws Error kInvalidDataset if more of the `num_images` images are bad than allowed.
  void check(long long num_images) const;
  // Throws Error kInvalidDataset if all images are bad.
  void require_any_good(long long num_images) const;

  // May be set to continue an earlier process.
  long long num_bad = 0, num_damaged = 0;
  std::string first_bad;  // the first bad images with their faults, for a message

 private:
  const Allowance allowed_;
  Log& log_;
};

}  // namespace kiln
