#include "train/state.h"

namespace kiln {

std::vector<NamedTensor> copied_weights(const ImageModel& model) {
  std::vector<NamedTensor> copies;
  for (const NamedTensor& sample : model.state())
    copies.push_back({sample.name, sample.tensor.detach().to(at::TensorOptions(at::kCPU),
                                                             /*non_blocking=*/false, /*copy=*/true,
                                                             at::MemoryFormat::Contiguous)});
  return copies;
}

std::vector<at::Tensor> without_names(const std::vector<NamedTensor>& items) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& item : items) tensors.push_back(item.tensor);
  return tensors;
}

ImageModel& frozen(ImageModel& model, Freeze what) {
  model.freeze(what);
  return model;
}

}  // namespace kiln
