// The subset of Python's pickle format (protocols 2 to 5) that state dicts need, as data: nothing
// is ever called.
//
// Known classes: collections.OrderedDict, torch's tensor rebuilders and storage types. Every other
// class and every opcode outside the subset is refused by its name. Time and memory are bounded by
// fixed limits. Format: Python's Lib/pickletools.py and torch/serialization.py.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "store/tensor.h"

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
  kTensor
};

std::string_view describe(PickleKind kind);  // "a number", …

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::int64_t number = 0;        // kBool, kInt; kStorage: elements
  std::string_view text;          // kString; kClass: "module name"; kStorage: its key
  DType dtype = DType::kFloat32;  // kStorage
  // kTuple, kList: the items. kDict: key, value, key, value, …
  // kStorage: empty, or the view of an old file (key, first element, elements).
  // kTensor: storage, first element, shape (a tuple), strides (a tuple).
  std::vector<const PickleValue*> items;
};

// Texts view the bytes that were read; pointers are valid as long as the document.
struct PickleDocument {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
  std::size_t size = 0;  // bytes up to and including STOP
};

// Reads the pickle that `bytes` begin with. Throws FormatFault.
PickleDocument read_pickle(std::string_view bytes);

}  // namespace kiln
