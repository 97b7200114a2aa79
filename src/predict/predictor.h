// A trained model that answers: its directory, its network and what its logits mean.
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
#include "predict/answer_rule.h"
#include "predict/features/training_features.h"
#include "record/vocabulary.h"
#include "store/model_directory.h"
#include "train/features/likeness.h"
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

// float32, row-major; features are undefined if nobody wants them.
struct QueuedOutputs {
  QueuedTensor logits;
  std::optional<QueuedTensor> features;
  Outputs take() { return {features ? features->take() : at::Tensor(), logits.take()}; }
};

// Images, prepared as for validation -> logits of its classes. Not thread-safe.
struct Predictor {
  // Reads the ModelDirectory of a trained model, written by this program or the designer's. Throws
  // Error kInvalidModelDirectory or kUserError, saying if possible what the folder is instead.
  Predictor(const std::filesystem::path& folder, const at::Device& its_device,
            Precision its_precision);

  // Without the weights. Has labels, and temperature 1 if it stores no calibration.
  ModelDirectory directory;
  // A fingerprint of the model's network, weights, classes, image transform and calibration.
  std::string print;
  Normalization normalization;
  // The image transform; empty if the directory does not store it. Images must then already have
  // the size used in training.
  std::optional<TransformSpec> pixels;
  at::Device device;
  Precision precision;
  std::unique_ptr<ImageModel> network;  // fused, but plain outside of InferenceMode
  std::unique_ptr<const AnswerRule> rule;
  std::optional<Likeness> likeness;  // by its features.safetensors
  std::optional<TrainingFeatures> training_features;
  std::vector<std::string> notes;  // sentences for warnings

  // D of the features, [N, D].
  std::int64_t num_features() const { return network->head().front().tensor.size(1); }

  // AnswerPlan::refuse_unlike as --refuse-unlike asks for it. Throws Error kUserError if the model
  // cannot tell, or not so few.
  double least_alike(const std::optional<double>& asked) const;

  // AnswerPlan::neighbors as --neighbors asks for it. Throws Error kUserError if the model has
  // none.
  int neighbors(int asked) const;

  // Throws Error kInvalidDataset if images of this size are too small for the network.
  void require_large_enough(ImageSize size) const;

  // Normalized images [N, 3, H, W] on the device -> float32 logits [N, num_classes], and the
  // features [N, D], if the model knows those of its training images or the plan needs them.
  QueuedOutputs outputs(const at::Tensor& images, const AnswerPlan& plan);
  // N answers, without the names of the images.
  std::vector<Score> answers(const Outputs& outputs, const AnswerPlan& plan) const;

  // ImageModel::class_maps() of one such image, on any device, and one class: [h, w] on the CPU.
  // Always computed in float32, whatever the precision of the logits.
  at::Tensor map_of(const at::Tensor& image, int id);
};

}  // namespace kiln
