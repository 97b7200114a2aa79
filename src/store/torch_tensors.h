// Converts an unpickled state dict and its storages to tensors.
#pragma once

#include <functional>
#include <string_view>

#include "store/pickle.h"
#include "store/state_dict_file.h"
#include "store/tensor.h"

namespace kiln {

// The bytes of a storage value: exactly value.number elements of value.dtype.
using StorageBytes = std::function<std::string_view(const PickleValue& storage)>;

// `object` must be a dictionary of names and tensors, or hold such dictionaries, its parts, of
// which one is taken (StateDictParts); what is no tensor is passed over. Strided tensors
// (channels_last, views) are converted to row-major. Throws FormatFault if a tensor has more
// elements than its storage or reaches beyond it, or if all tensors together exceed `max_bytes`.
StateDict collect_tensors(const PickleValue& object, const StorageBytes& storage_bytes,
                          std::uint64_t max_bytes, StateDictParts& parts);

}  // namespace kiln
