#include "predict/predictor.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/dataset/listing.h"
#include "model/weights/starting_weights.h"
#include "predict/features/known_features.h"
#include "record/run_file.h"
#include "store/checkpoint.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Pixels from 0 to 1: the designer's default if the directory does not specify a normalization.
constexpr Normalization kUnchanged{{0, 0, 0}, {1, 1, 1}};
constexpr int kMaxFolders = 100;  // to search for images

bool has_images(const fs::path& folder) {
  return std::ranges::any_of(entries_if_readable(folder), [](const FolderEntry& entry) {
    return has_image_extension(entry.name) || has_archive_extension(entry.name);
  });
}

bool is_image_folder(const fs::path& folder) {
  if (has_images(folder)) return true;
  int num_folders = 0;
  for (const FolderEntry& entry : entries_if_readable(folder)) {
    if (entry.type != fs::file_type::directory) continue;
    if (has_images(folder / entry.name)) return true;
    if (++num_folders == kMaxFolders) break;
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
  if (type_at(folder) == fs::file_type::not_found)
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

Predictor::Predictor(const fs::path& folder, const at::Device& its_device, Precision its_precision)
    : directory(read_trained(folder)),
      print(print_of_trained(directory)),
      normalization(normalization_of(directory)),
      device(its_device),
      precision(its_precision),
      network(loaded_model(directory, (folder / directory.spec.model_file).string())),
      rule(rule_of(directory.spec, directory.calibration)) {
  const bool names_images = is_there(folder / kTrainingFeaturesFile);
  const std::uint64_t weights = directory.features || names_images ? hash_of(directory.state) : 0;
  if (directory.features)
    likeness = read_features(*directory.features, weights, num_features(),
                             (folder / kFeaturesFile).string());
  if (names_images)
    training_features.emplace(folder / kTrainingFeaturesFile, weights, num_features());
  directory.state = {};
  directory.features.reset();
  if (directory.preprocessing)
    pixels = pixels_of(*directory.preprocessing, (folder / kPreprocessingFile).string());
  network->prepare(device);
  network->fuse();
  const auto lacks = [&](std::string_view file, const char* so) {
    notes.push_back("The model has no " + std::string(file) + ": " + so);
  };
  if (directory.labels.empty()) {
    for (int id = 0; id < *directory.spec.num_classes; ++id)
      directory.labels.push_back(std::to_string(id));
    lacks(kLabelMapFile, "its classes are named 0, 1 and so on.");
  }
  if (!is_there(folder / kCalibrationFile))
    lacks(kCalibrationFile, "its confidence is not calibrated.");
  if (!directory.preprocessing)
    lacks(kPreprocessingFile,
          "images are resized to the size of the first one, which should be that in training.");
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

double Predictor::least_alike(const std::optional<double>& asked) const {
  if (!asked) return 0;
  const std::string option = formatted("--refuse-unlike %g%%: ", 100 * *asked);
  if (!likeness)
    throw Error(ErrorCode::kUserError,
                option + "the model has no features of its training images (" +
                    std::string(kFeaturesFile) + "). `kiln embed --into` adds them.");
  const std::int64_t count = likeness->held_out.size(1);
  if (*asked * static_cast<double>(count + 1) <= 1)
    throw Error(
        ErrorCode::kUserError,
        option + formatted("the model knows %lld held-out images, so no image is less "
                           "alike than %.3g%%. Use a higher value.",
                           static_cast<long long>(count), 100 / static_cast<double>(count + 1)));
  return *asked;
}

int Predictor::neighbors(int asked) const {
  if (asked == 0 || training_features) return asked;
  throw Error(
      ErrorCode::kUserError,
      formatted("--neighbors %d: the model does not know its training images by name (", asked) +
          std::string(kTrainingFeaturesFile) + "). `kiln train --keep-features` adds them.");
}

void Predictor::require_large_enough(ImageSize size) const {
  known_network(directory.spec.model_name)
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

QueuedOutputs Predictor::outputs(const at::Tensor& images, const AnswerPlan& plan) {
  const at::InferenceMode inference(device.is_cpu());  // in which no casts are kept
  const at::NoGradGuard no_grad;
  const Outputs outputs = outputs_of(*network, images, precision);
  QueuedOutputs queued{QueuedTensor(outputs.logits.contiguous()), {}};
  if (likeness || plan.wants_features || plan.neighbors > 0)
    queued.features.emplace(outputs.features.contiguous());
  return queued;
}

std::vector<Score> Predictor::answers(const Outputs& outputs, const AnswerPlan& plan) const {
  std::vector<Score> scores = rule->answers(outputs.logits, plan);
  if (plan.neighbors > 0) {
    auto nearest = training_features->nearest(outputs.features, plan.neighbors);
    for (std::size_t i = 0; i < scores.size(); ++i)
      if (!scores[i].best.empty()) scores[i].neighbors = std::move(nearest[i]);
  }
  if (!likeness) return scores;
  const std::vector<double> alike =
      likeness->alike(outputs.features, outputs.logits.to(at::kFloat).logsumexp(1));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].best.empty()) continue;
    scores[i].alike = static_cast<float>(alike[i]);
    scores[i].is_unlike = alike[i] < plan.refuse_unlike;
    scores[i].is_unsure = scores[i].is_unsure || scores[i].is_unlike;
  }
  return scores;
}

at::Tensor Predictor::map_of(const at::Tensor& image, int id) {
  return network->class_maps(image.to(device), {id}).cpu().contiguous()[0];
}

}  // namespace kiln
