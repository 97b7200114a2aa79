// Names of what pickles hold: opcodes for messages, and torch's storage classes.
#pragma once

#include <string>
#include <string_view>

#include "store/tensor.h"

namespace kiln {

// "REDUCE", or "0x3f" for a byte that is no opcode.
std::string opcode_name(unsigned char opcode);

// "FloatStorage" for kFloat32, …
std::string_view storage_class(DType dtype);
// False when `name` is no storage class of a known type.
bool find_storage_class(std::string_view name, DType& dtype);

}  // namespace kiln
