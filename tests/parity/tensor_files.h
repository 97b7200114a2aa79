// Tensors between LibTorch and the files that the parity scripts write and read.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <string>

#include "store/state_dict_file.h"

namespace kiln::test {

// A copy. `stored` is of `type`.
inline at::Tensor to_tensor(const StoredTensor& stored, at::ScalarType type) {
  return at::from_blob(const_cast<char*>(stored.bytes.data()), stored.shape,
                       at::TensorOptions().dtype(type))
      .clone();
}

inline StoredTensor to_stored(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().cpu().contiguous();
  const DType type = plain.scalar_type() == at::kDouble  ? DType::kFloat64
                     : plain.scalar_type() == at::kFloat ? DType::kFloat32
                                                         : DType::kInt64;
  return {name,
          type,
          plain.sizes().vec(),
          {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()}};
}

}  // namespace kiln::test
