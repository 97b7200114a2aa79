#include "store/pickle_names.h"

#include <array>

#include "base/error.h"

namespace kiln {
namespace {

struct OpcodeName {
  unsigned char opcode;
  std::string_view name;
};

// The opcodes that the reader does not know by itself.
constexpr std::array kOpcodeNames{
    OpcodeName{'0', "POP"},
    OpcodeName{'1', "POP_MARK"},
    OpcodeName{'2', "DUP"},
    OpcodeName{'F', "FLOAT"},
    OpcodeName{'I', "INT"},
    OpcodeName{'L', "LONG"},
    OpcodeName{'P', "PERSID"},
    OpcodeName{'R', "REDUCE"},
    OpcodeName{'S', "STRING"},
    OpcodeName{'V', "UNICODE"},
    OpcodeName{'b', "BUILD"},
    OpcodeName{'d', "DICT"},
    OpcodeName{'g', "GET"},
    OpcodeName{'i', "INST"},
    OpcodeName{'l', "LIST"},
    OpcodeName{'o', "OBJ"},
    OpcodeName{'p', "PUT"},
    OpcodeName{'B', "BINBYTES"},
    OpcodeName{'C', "SHORT_BINBYTES"},
    OpcodeName{0x81, "NEWOBJ"},
    OpcodeName{0x82, "EXT1"},
    OpcodeName{0x83, "EXT2"},
    OpcodeName{0x84, "EXT4"},
    OpcodeName{0x8b, "LONG4"},
    OpcodeName{0x8e, "BINBYTES8"},
    OpcodeName{0x8f, "EMPTY_SET"},
    OpcodeName{0x90, "ADDITEMS"},
    OpcodeName{0x91, "FROZENSET"},
    OpcodeName{0x92, "NEWOBJ_EX"},
    OpcodeName{0x96, "BYTEARRAY8"},
    OpcodeName{0x97, "NEXT_BUFFER"},
    OpcodeName{0x98, "READONLY_BUFFER"},
};

struct StorageClass {
  std::string_view name;
  DType dtype;
};

constexpr std::array kStorageClasses{
    StorageClass{"DoubleStorage", DType::kFloat64},
    StorageClass{"FloatStorage", DType::kFloat32},
    StorageClass{"HalfStorage", DType::kFloat16},
    StorageClass{"BFloat16Storage", DType::kBFloat16},
    StorageClass{"LongStorage", DType::kInt64},
    StorageClass{"IntStorage", DType::kInt32},
    StorageClass{"ShortStorage", DType::kInt16},
    StorageClass{"CharStorage", DType::kInt8},
    StorageClass{"ByteStorage", DType::kUInt8},
    StorageClass{"BoolStorage", DType::kBool},
};

}  // namespace

std::string opcode_name(unsigned char opcode) {
  for (const OpcodeName& known : kOpcodeNames) {
    if (known.opcode == opcode) return std::string(known.name);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("0x") + kDigits[opcode >> 4] + kDigits[opcode & 15];
}

std::string_view storage_class(DType dtype) {
  for (const StorageClass& known : kStorageClasses) {
    if (known.dtype == dtype) return known.name;
  }
  throw InternalError("storage_class: unknown dtype");
}

bool find_storage_class(std::string_view name, DType& dtype) {
  for (const StorageClass& known : kStorageClasses) {
    if (known.name != name) continue;
    dtype = known.dtype;
    return true;
  }
  return false;
}

}  // namespace kiln
