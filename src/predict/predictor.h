// A trained model for inference: images, prepared as for validation -> logits of its classes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/transform/image_pipeline.h"
#include "model/image_model.h"
#include "record/vocabulary.h"
#include "store/model_directory.h"

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

// Not thread-safe.
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

  // Has temperature 1 if the directory stores no calibration.
  const Calibration& calibration() const { return directory_.calibration; }
  // Empty if the directory does not store them.
  const std::optional<SeenImages>& seen_images() const { return directory_.seen_images; }

  // Normalized images [N, 3, H, W] on the device -> float32 logits [N, num_classes]. The
  // probabilities are softmax(logits / temperature).
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
  std::vector<std::string> notes_;
};

}  // namespace kiln
