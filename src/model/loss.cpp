#include "model/loss.h"

#include <torch/torch.h>

namespace kiln {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         std::int64_t nominal_count) {
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum) /
         static_cast<double>(nominal_count);
}

}  // namespace kiln
