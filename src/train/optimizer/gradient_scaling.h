// What is done to a step's gradient before the optimizer gets it: the loss scale of float16, and
// clipping.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace kiln {

// Keeps small gradients of float16 training from vanishing: the loss is multiplied by a scale
// before backward, and the gradients are divided by it after. The scale grows until a gradient
// overflows; that step is then skipped and the scale halved.
struct LossScale {
  double scale = 65536;
  int steps_since_overflow = 0;
  int skipped_steps = 0;  // in this epoch
};

// Everything is on the device; the host waits only in values(). One thread.
class LossScaler {
 public:
  explicit LossScaler(const c10::Device& device);

  at::Tensor scaled(const at::Tensor& loss) const;

  // Call once per step, on gradients that are complete and summed over the ranks, so that all ranks
  // get the same result. Divides the gradients by the scale and adapts the scale. Returns float32
  // [1] for Optimizer::step(), valid until the next call: 1 if a gradient was not finite, otherwise
  // 0.
  const at::Tensor& unscale(const std::vector<at::Tensor>& gradients);

  LossScale values() const;  // waits for the device
  void set(const LossScale& values);
  void forget_skipped_steps();

 private:
  at::Tensor scale_, found_inf_, skipped_;  // float32 [1]
  at::Tensor growth_tracker_;               // int32 [1]: steps since the last overflow
};

// Clips a step's gradient by its norm. Pascanu, Mikolov and Bengio, "On the difficulty of training
// recurrent neural networks", arXiv:1211.5063.
//
// Multiplies the gradients by most / norm if their total norm exceeds `most`, like PyTorch's
// clip_grad_norm_. Gradients that are complete and summed over the ranks are the same on all ranks,
// and so is the result. On a GPU the host does not wait. `gradients`: may be flat buffers, padded
// with zeros between the gradients.
void clip_norm(const std::vector<at::Tensor>& gradients, double most);

}  // namespace kiln
