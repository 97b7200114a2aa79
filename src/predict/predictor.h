// A trained model that answers: images as validation saw them -> logits of its classes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/vocabulary.h"
#include "data/transform/image_pipeline.h"
#include "model/image_model.h"
#include "store/model_directory.h"

namespace kiln {

// What validation's images went through, of a directory that says so.
// `where`: its path, for Error kInvalidModelDirectory if its operations are none.
TransformSpec pixels_of(const Preprocessing& stored, const std::string& where);

// Not thread-safe.
class Predictor {
 public:
  // Reads the ModelDirectory of a trained model, of this program or of the designer's. Throws Error
  // kInvalidModelDirectory or kUserError, which says what the folder is instead, as far as that can
  // be told.
  Predictor(const std::filesystem::path& folder, const at::Device& device, Precision precision);

  const ModelSpec& spec() const { return directory_.spec; }
  const std::vector<std::string>& labels() const { return directory_.labels; }  // by class id
  const Normalization& normalization() const { return normalization_; }
  // Distinguishes models: by network, weights, classes, pixels and calibration.
  const std::string& print() const { return print_; }
  // Sentences for warnings.
  const std::vector<std::string>& notes() const { return notes_; }

  // Empty: the directory does not say. Its images are as large as in training, and not resized.
  const std::optional<TransformSpec>& pixels() const { return pixels_; }
  // Throws Error kInvalidDataset if images of that size are too small for the network.
  void require_large_enough(ImageSize size) const;

  // Temperature 1 where the directory has none.
  const Calibration& calibration() const { return directory_.calibration; }
  // Empty where the directory does not say.
  const std::optional<SeenImages>& seen_images() const { return directory_.seen_images; }

  // [N, 3, H, W], normalized, on the device -> float32 [N, num_classes] on the CPU. Their
  // probabilities are softmax(logits / temperature).
  at::Tensor logits(const at::Tensor& images);

  // Where in each of these images the network sees its class: ImageModel::class_maps(), float32 on
  // the CPU, and computed in float32 whatever the precision of the answers.
  at::Tensor class_maps(const at::Tensor& images, const std::vector<int>& classes);

 private:
  ModelDirectory directory_;  // without its state
  std::string print_;
  Normalization normalization_;
  std::optional<TransformSpec> pixels_;
  Precision precision_;
  std::unique_ptr<ImageModel> model_;
  std::vector<std::string> notes_;
};

}  // namespace kiln
