#include "predict/predictor.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/dataset/folder_entries.h"
#include "model/weights/model_weights.h"
#include "record/run_file.h"
#include "store/checkpoint.h"
#include "store/model_directory.h"
#include "train/precision.h"

namespace kiln {
namespace {

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
      if (entry.kind != FolderEntry::Kind::kFolder) continue;
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
  std::error_code failure;
  if (!fs::is_directory(folder, failure)) return "";
  if (is_checkpoint(folder)) return "holds checkpoints of a run, for resuming training";
  if (fs::exists(folder / kMetaFile, failure)) return "";  // the reader reports its type
  if (fs::exists(folder / kRunFileName, failure)) return "is the log folder of a run";
  return is_image_folder(folder) ? "is a folder of images" : "";
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "--trained-model-path " + quoted_path(folder) + " " + what +
                  ". Give the folder that `kiln train` wrote to its --trained-model-path.");
}

ModelDirectory read_trained(const fs::path& folder) {
  if (const std::string kind = kind_of(folder); !kind.empty())
    refuse(folder, kind + ", not a model");
  if (!read_model_spec(folder).num_classes)
    refuse(folder, "is an untrained model, as written by `kiln init-model`");
  return read_model_directory(folder);
}

std::unique_ptr<ImageModel> load(const ModelDirectory& directory, const fs::path& folder) {
  const ModelSpec& spec = directory.spec;
  auto model = make_image_model({.model_name = spec.model_name,
                                 .num_classes = *spec.num_classes,
                                 .with_output_layer = spec.pretrained,
                                 .is_initialized = false});
  load_tensors(model->state(), directory.state, (folder / spec.model_file).string());
  return model;
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
      model_(load(directory_, folder)) {
  directory_.state = {};
  if (directory_.preprocessing)
    pixels_ = pixels_of(*directory_.preprocessing, (folder / kPreprocessingFile).string());
  model_->prepare(device);
  model_->fold_batch_norm();
  if (directory_.labels.empty()) {
    for (int id = 0; id < *spec().num_classes; ++id)
      directory_.labels.push_back(std::to_string(id));
    notes_.push_back(formatted("The model has no %s: its classes are named 0, 1 and so on.",
                               std::string(kLabelMapFile).c_str()));
  }
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
          .short_side = stored.resize_short_side,
          .keep_exact = stored.keep_exact_size};
}

void Predictor::require_large_enough(ImageSize size) const {
  const NetworkFamily& family = known_network(spec().model_name).family();
  if (family.final_map_side(size.height) > 0 && family.final_map_side(size.width) > 0) return;
  throw Error(ErrorCode::kInvalidDataset,
              "Images of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                  " pixels are too small for " + spec().model_name +
                  ": give images of the size that the model was trained on.");
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

}  // namespace kiln
