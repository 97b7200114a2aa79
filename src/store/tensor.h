// A tensor as stored in files: name, type, shape, bytes. Does not depend on LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class DType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool
};

std::size_t byte_size(DType dtype);

// The size in bytes of a tensor; its dimensions must not be negative. Empty if the product of the
// dimensions, with 0 taken as 1, does not fit into 63 bits: strides and counts would overflow.
std::optional<std::uint64_t> bytes_of_shape(const std::vector<std::int64_t>& shape, DType dtype);

struct StoredTensor {
  std::string name;  // "model.conv1.weight"
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::string bytes;                // row-major, little-endian, prod(shape) * byte_size(dtype) long
};

// A view of a tensor in memory, to be written.
struct TensorView {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::string_view bytes;  // as StoredTensor's
};

// In file order, with unique names.
using StateDict = std::vector<StoredTensor>;

}  // namespace kiln
