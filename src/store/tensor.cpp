#include "store/tensor.h"

#include <algorithm>

#include "base/error.h"

namespace kiln {

std::size_t byte_size(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return 1;
  }
  throw InternalError("byte_size: unknown dtype");
}

std::optional<std::uint64_t> bytes_of_shape(const std::vector<std::int64_t>& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(byte_size(dtype));
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    is_empty |= size == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
}

}  // namespace kiln
