// From an unpickled state dict and its storages to tensors.
#pragma once

#include <functional>
#include <string_view>

#include "store/pickle.h"
#include "store/tensor.h"

namespace kiln {

// The bytes of a storage value: exactly value.number elements of value.dtype.
using StorageBytes = std::function<std::string_view(const PickleValue& storage)>;

// `root` must be a dictionary from names to tensors. Strided tensors (channels_last, views) come
// out row-major. A FormatFault: a tensor that has more elements than its storage or reaches beyond
// it, and tensors of more than `max_bytes` together.
StateDict collect_tensors(const PickleValue& root, const StorageBytes& storage_bytes,
                          std::uint64_t max_bytes);

}  // namespace kiln
