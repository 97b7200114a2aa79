// Reads the subset of Python's pickle format (protocols 2 to 5) that state dicts need, as pure
// data: nothing is ever called.
//
// Known classes: collections.OrderedDict, torch's tensor rebuilders and storage types. What belongs
// to another class, such as the argparse.Namespace beside the weights of a training program, is
// skipped and leaves an opaque value: its class's name and nothing else. Opcodes that torch.save
// does not write are rejected by name. Time and memory are bounded. Format: Python's
// Lib/pickletools.py and torch/serialization.py.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "store/state_dict_file.h"

namespace kiln {

enum class PickleKind {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kTuple,
  kList,
  kDict,
  kClass,
  kStorage,
  kTensor,
  kOpaque
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::int64_t number = 0;  // kBool, kInt; kStorage: elements
  // kString; kClass: "module name", or a storage class; kStorage: its key; kOpaque: its class.
  std::string_view text;
  std::string_view module;        // kOpaque: of the class; empty for Python's own types
  DType dtype = DType::kFloat32;  // kStorage
  // kTuple, kList: the items. kDict: key, value, key, value, … kStorage: empty, or a view in an old
  // file (key, first element, number of elements). kTensor: storage, first element, shape (a
  // tuple), strides (a tuple).
  std::vector<const PickleValue*> items;
};

// For messages: "a number", "an object of the Python class 'argparse.Namespace'", …
std::string describe(const PickleValue& value);

// Strings point into the input bytes; pointers are valid while the document exists.
struct PickleDocument {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
  std::size_t size = 0;  // bytes up to and including STOP
};

// Reads the pickle at the beginning of `bytes`. Throws FormatFault.
PickleDocument read_pickle(std::string_view bytes);

}  // namespace kiln
