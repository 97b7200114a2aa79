// Networks that classify images: [N, 3, H, W] -> logits [N, num_classes]. Tensor names (after the
// prefix `model.`), shapes and initialization match torchvision's.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/catalogue.h"
#include "model/operators/sync_batch_norm.h"
#include "record/vocabulary.h"

namespace kiln {

struct ModelOptions {
  std::string model_name;  // one of network_names()
  int num_classes = 1000;
  bool with_output_layer =
      false;  // 1000-way head, then `out_linear_model`, 1000 -> num_classes (pretrained models)
  bool memory_efficient =
      false;  // DenseNet: recompute the concatenations and bottlenecks in backward
  bool zero_init_residual = false;  // ResNet: the last BatchNorm of each block starts at 0
  bool is_initialized = true;  // false: no values until they are loaded; takes no time or memory
};

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // shares memory with the model
};

// What a step keeps for backward, for each pixel of an image: at least.
struct Kept {
  double numbers = 0;  // of feature maps
  double indices = 0;  // of max pooling, int64
};

// A network and its weights. Not thread-safe. Not copyable; weights are transferred by name.
class ImageModel {
 public:
  virtual ~ImageModel() = default;

  at::Tensor forward(const at::Tensor& images) { return logits_of(pooled_features(images)); }
  // The input of the head, [N, D]: each channel of the last feature maps, averaged over the image,
  // and what the network computes from these means.
  virtual at::Tensor pooled_features(const at::Tensor& images) = 0;
  // The logits of images with these features.
  virtual at::Tensor logits_of(const at::Tensor& features) = 0;
  // Class activation maps, Zhou et al., arXiv:1512.04150: which regions of image n speak for class
  // `classes[n]`. [N, h, w] from 0 to 1. The channels of the last feature maps are summed with the
  // gradients of the class's logit with respect to their means, negative sums are set to 0, and
  // each map is scaled so that its maximum is 1; it is all 0 if nothing speaks for the class. This
  // equals Grad-CAM, arXiv:1610.02391, up to scale. For inference only: call it in eval mode, but
  // not in InferenceMode.
  virtual at::Tensor class_maps(const at::Tensor& images, const std::vector<int>& classes) = 0;
  // Frozen BatchNorm stays in eval mode, and what is frozen of the backbone drops nothing.
  virtual void train(bool on) = 0;
  // What a network in training mode drops at random of an image (stochastic depth, dropout) is a
  // pure function of the image's key: one for each image of the next forward passes. Without keys
  // of the right number, an image's is its place in the batch.
  virtual void key_images(std::vector<std::uint64_t> /*keys*/) {}
  // From now on frozen parameters require no gradient, and no autograd graph is built for a frozen
  // backbone. Call it before creating an optimizer. Throws Error kUserError for a stage that the
  // network does not have.
  virtual void freeze(Freeze what) = 0;
  virtual std::vector<at::Tensor> parameters() const = 0;
  // The same tensors in the same order, with their names in the state dict.
  virtual std::vector<NamedTensor> named_parameters() const = 0;
  // Of each of these: the number of its stage (docs/networks.md), 0 before the first one; of the
  // head one more than that of the last stage.
  virtual std::vector<int> stages() const = 0;
  // The parameters that are not frozen.
  std::vector<NamedTensor> trained_parameters() const;
  // The head's parameters: weight [num_classes, D] and bias [num_classes]. With an output layer:
  // those of the 1000-way layer, then those of the output layer.
  virtual std::vector<NamedTensor> head() const = 0;
  // Parameters and buffers in module order, as Python's state_dict() lists them.
  virtual std::vector<NamedTensor> state() const = 0;
  // The tensors of state() that are not parameters, in the same order: BatchNorm's statistics.
  std::vector<NamedTensor> buffers() const;
  // Moves the model to `device` and stores 4-D weights as channels_last. Call it before creating an
  // optimizer.
  virtual void prepare(const at::Device& device) = 0;
  virtual void to_float64() = 0;
  // From now on every BatchNorm uses the batches of all ranks. Not supported for memory-efficient
  // DenseNets, whose recomputation in backward sees only this rank's batch.
  virtual void synchronize_batch_norm(const BatchRanks& ranks) = 0;
  // From now on BatchNorm on GPUs and what follows it are one operation where they can be
  // (model/operators/fused_norm.h).
  virtual void fuse_norms() {}
  // For inference only, after prepare(): folds every BatchNorm that directly follows a convolution
  // into it, which saves a pass over the convolution's output. The logits are the same up to
  // rounding. Afterwards state() must not be saved: the folded weights are not those of a model
  // file.
  virtual void fold_batch_norm() = 0;
  // The same, and from now on computes in InferenceMode on a CPU with fused operators
  // (model/operators/fused_convolution.h), if LibTorch has them and nothing can overflow. Then
  // forward() takes a few images at a time, so that their feature maps stay in the processor's
  // cache.
  virtual void fuse() { fold_batch_norm(); }
  virtual Kept kept() const = 0;
};

// Returns a network initialized with random weights from LibTorch's default generator; seed it
// first, unless the options want no values. Throws Error kInvalidModelDirectory, listing the known
// names, for an unknown name.
std::unique_ptr<ImageModel> make_image_model(const ModelOptions& options);

}  // namespace kiln
