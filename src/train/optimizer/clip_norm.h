// Clips a step's gradient by its norm. Pascanu, Mikolov and Bengio, "On the difficulty of training
// recurrent neural networks", arXiv:1211.5063.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln {

// Multiplies the gradients by most / norm if their total norm exceeds `most`, like PyTorch's
// clip_grad_norm_. Gradients that are complete and summed over the ranks are the same on all ranks,
// and so is the result. On a GPU the host does not wait. `gradients`: may be flat buffers, padded
// with zeros between the gradients.
void clip_norm(const std::vector<at::Tensor>& gradients, double most);

}  // namespace kiln
