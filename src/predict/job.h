// What the commands share that ask a trained model: how it computes, its images, and its answers,
// batch by batch in image order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_source.h"
#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "data/loader/loader_threads.h"
#include "data/transform/image_pipeline.h"
#include "parallel/device/device.h"
#include "predict/explanations.h"
#include "predict/predictor.h"
#include "train/precision.h"

namespace kiln {

struct PredictionJob {
  // Chooses device and precision, and sets the process's compute threads. Create it once, before
  // the first tensor operation. The process is number `place` of `num_on_host` that share the
  // host's devices and processors. The log must outlive it. Throws Error kUserError.
  PredictionJob(const PredictionConfig& its_config, Log& its_log, int place = 0,
                int num_on_host = 1);

  const PredictionConfig config;
  Log& log;
  const int num_processors;
  const Device device;
  const PrecisionChoice precision;
  // What a command opens, as far as it needs it.
  std::vector<Predictor> models;
  Dataset images;
  std::optional<FileList> list;  // names the images instead; `images` is empty
  std::optional<ExplanationFolder> explanations;

  int num_decoders() const;
  HostBatchLayout batch_layout(const Normalization& normalization) const;

  // Throws what the constructor of Predictor throws, and Error kUserError if `one_label`, which is
  // asked for unless it is empty, needs a model of another kind.
  void open_model(const std::filesystem::path& folder, const std::string& one_label);
  // Opens the images of a path, several image files, or a list with names relative to the path.
  // How labels are read follows from the first model. Throws Error.
  void read_images(const std::vector<std::string>& paths, const std::string& files_from = "");
  void warn_of_precision() const;
  // What answers, on what, with warnings of its precision and of what the model lacks.
  void log_model(const Predictor& model) const;
};

// One image of a batch.
struct AnsweredImage {
  std::uint32_t index = 0;         // index in the set
  std::uint64_t hash = 0;          // content_hash() of its bytes; 0: they could not be read
  std::optional<std::size_t> row;  // row of the logits; empty: the image is bad
  Score score;                     // without a true label
};

struct AnsweredBatch {
  std::vector<AnsweredImage> images;  // in order, bad or not
  // On the CPU. Undefined if all images are bad; features also if neither the model nor the command
  // wants them.
  Outputs outputs;
};

// Images `first` to `end` - 1 of a set.
struct ImageRange {
  std::uint32_t first = 0, end = std::numeric_limits<std::uint32_t>::max();
};

// Brings images to a network in their order, loaded ahead on its own threads. Used by one thread.
class ImageFeed {
 public:
  ImageFeed(const PredictionJob& job, const TransformSpec& pixels,
            const Normalization& normalization);

  // The batches of a range. The feed and the set must outlive the loader.
  std::unique_ptr<BatchLoader> open(Dataset& set, ImageRange range = {});
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
  // The first two must outlive it.
  Predictions(Predictor& model, const PredictionJob& job, AnswerPlan plan)
      : model_(model), job_(job), plan_(std::move(plan)) {}

  // Calls `use` with each batch of the range, in order; on a GPU one batch late. If the model does
  // not specify its image size, the size of the first image of the first set is used. Throws Error
  // kInvalidDataset if that is too small, and what BatchLoader::next() and `use` throw.
  void for_each(Dataset& set, const std::function<void(AnsweredBatch&)>& use,
                ImageRange range = {});

  // The transform applied to images; valid once for_each() has started.
  const TransformSpec& pixels() const { return pixels_; }

 private:
  TransformSpec pixels_for(const Dataset& set) const;

  Predictor& model_;
  const PredictionJob& job_;
  const AnswerPlan plan_;
  TransformSpec pixels_;
  std::optional<ImageFeed> feed_;
};

// Counts faulty images, names the first ones in the log, and fails if more are bad than allowed.
// One thread; the log must outlive it.
class PredictionFaults {
 public:
  PredictionFaults(Allowance allowed, Log& log) : allowed_(allowed), log_(log) {}

  // A bad image has no answer; a damaged one is used as far as it can be decoded.
  void add(const std::string& path, const std::string& fault, bool is_bad);

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
