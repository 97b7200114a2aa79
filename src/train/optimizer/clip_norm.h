// Clipping of a step's gradient by its norm. Pascanu, Mikolov and Bengio, "On the difficulty of
// training recurrent neural networks", arXiv:1211.5063.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln {

// Multiplies the gradients by most / norm where their common norm is larger, as PyTorch's
// clip_grad_norm_ does. Complete and summed over the ranks, they are the same on all of them, and
// so is what comes of it. On a GPU the host waits for nothing. `gradients`: flat buffers with
// nothing but zeros between the gradients.
void clip_norm(const std::vector<at::Tensor>& gradients, double most);

}  // namespace kiln
