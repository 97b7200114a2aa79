// From an unpickled state dict and its storages to tensors.
#pragma once

#include <functional>
#include <string_view>

#include "store/pickle_reader.h"
#include "store/tensor.h"

namespace kiln {

// The bytes of a storage value: exactly value.number elements of value.dtype.
using StorageBytes = std::function<std::string_view(const PickleValue& storage)>;

// `root` must be a dictionary from names to tensors. Strided tensors (channels_last, views) come
// out row-major. A tensor that reads an element twice, or reads beyond its storage, is a
// FormatFault, and so are tensors of more than `max_bytes` together.
StateDict collect_tensors(const PickleValue& root, const StorageBytes& storage_bytes,
                          std::uint64_t max_bytes);

}  // namespace kiln
