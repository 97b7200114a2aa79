// Networks that classify images: [N, 3, H, W] -> logits [N, num_classes]. Names, shapes and
// initialization rules are torchvision's, behind the prefix `model.`.
#pragma once

#include <ATen/core/Tensor.h>
#include <memory>
#include <string>
#include <vector>

#include "base/vocabulary.h"
#include "model/catalogue.h"
#include "model/sync_batch_norm.h"

namespace kiln {

struct ModelOptions {
  std::string model_name;  // one of network_names()
  int num_classes = 1000;
  bool with_output_layer =
      false;  // 1000-way head, then `out_linear_model`, 1000 -> num_classes (pretrained models)
  bool memory_efficient =
      false;  // DenseNet: recompute the concatenations and bottlenecks in backward
  bool zero_init_residual = false;  // ResNet: the last BatchNorm of each block starts at 0
};

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // shares memory with the model
};

// A network and its weights. Not thread-safe. Copying is not possible; weights move by name.
class ImageModel {
 public:
  virtual ~ImageModel() = default;

  virtual at::Tensor forward(const at::Tensor& images) = 0;
  // What the head classifies, [N, D]: the mean of each channel of the last feature maps.
  virtual at::Tensor pooled_features(const at::Tensor& images) = 0;
  // Where in each image the network sees one class, `classes[n]` in image n: [N, h, w], from 0 to
  // 1, the largest value of an image being 1, or all 0 where nothing speaks for the class. The
  // channels of the last feature maps, weighted as the class weights their means; negative sums
  // are 0. Class activation maps: Zhou et al., arXiv:1512.04150. In these networks they equal
  // Grad-CAM's, arXiv:1610.02391, up to the scale. For inference: not in training mode.
  virtual at::Tensor class_maps(const at::Tensor& images, const std::vector<int>& classes) = 0;
  // Frozen BatchNorm stays in eval mode.
  virtual void train(bool on) = 0;
  // From now on what is frozen requires no gradient, and no graph is built of a frozen backbone.
  // Call it before creating an optimizer.
  virtual void freeze(Freeze what) = 0;
  virtual std::vector<at::Tensor> parameters() const = 0;
  // The same in the same order, with their names in the state dict.
  virtual std::vector<NamedTensor> named_parameters() const = 0;
  // Those that are not frozen.
  std::vector<NamedTensor> trained_parameters() const;
  // The head's: weight [num_classes, D] and bias [num_classes]; with an output layer those of
  // [1000, D], then those of the output layer.
  virtual std::vector<NamedTensor> head() const = 0;
  // Parameters and buffers in module order, as Python's state_dict() lists them.
  virtual std::vector<NamedTensor> state() const = 0;
  // What of state() is no parameter, in the same order: BatchNorm's statistics.
  std::vector<NamedTensor> buffers() const;
  // Moves to `device` and stores 4-D weights as channels_last. Call it before creating an
  // optimizer.
  virtual void prepare(const at::Device& device) = 0;
  virtual void to_float64() = 0;
  // Every BatchNorm uses the batches of all ranks from now on. Not for memory-efficient DenseNets,
  // whose recomputation in backward sees only this rank's batch.
  virtual void synchronize_batch_norm(const SumOverRanks& sum) = 0;
  // For inference alone, after prepare(): every BatchNorm that directly follows a convolution
  // becomes part of it, which spares a pass over its output. The logits are equal up to rounding;
  // state() no longer has the values of a file.
  virtual void fold_batch_norm() = 0;
};

// A freshly initialized network, drawn from LibTorch's default generator: seed it first.
// Throws Error kInvalidModelDirectory with the known names for an unknown one.
std::unique_ptr<ImageModel> make_image_model(const ModelOptions& options);

}  // namespace kiln
