// Reads the subset of Python's pickle format (protocols 2 to 5) that state dicts need, as pure
// data: nothing is ever called.
//
// Known classes: collections.OrderedDict, torch's tensor rebuilders and storage types. What belongs
// to another class, such as the argparse.Namespace beside the weights of a training program, is
// skipped and leaves an opaque value: its class's name and nothing else. Opcodes that torch.save
// does not write are rejected by name. Time and memory are bounded. Format: Python's
// Lib/pickletools.py and torch/serialization.py.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "store/byte_reader.h"
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

// Names of opcodes (for messages) and of torch's storage classes.

// "REDUCE", or "0x3f" for an unknown opcode.
std::string opcode_name(unsigned char opcode);

// "FloatStorage" for kFloat32, …
std::string_view storage_class(DType dtype);
// Returns false if `name` is not the storage class of a known type.
bool find_storage_class(std::string_view name, DType& dtype);

// The stack machine behind read_pickle(), for its internal use. pickle_reader.cpp implements the
// stack, memo and containers, pickle_objects.cpp the classes.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}
  PickleDocument run();

 private:
  using Items = std::vector<const PickleValue*>;

  template <std::unsigned_integral Integer>
  Integer number() {
    const auto value = little_endian<Integer>(bytes_, at_, "its pickle");
    at_ += sizeof(Integer);
    return value;
  }
  std::string_view take(std::uint64_t size) {
    const std::string_view taken = range_of(bytes_, at_, size, "a text of its pickle");
    at_ += size;
    return taken;
  }

  PickleValue& make(PickleKind kind);
  void push(PickleValue* value);
  void push_number(PickleKind kind, std::int64_t value) { make(kind).number = value; }
  void push_text(std::string_view text) { make(PickleKind::kString).text = text; }
  void push_class(std::string_view module, std::string_view name);
  void push_opaque(std::string_view name, std::string_view module = {});
  // An object of a class that is not known; `what` made it.
  void push_object_of(const PickleValue& type, const char* what);
  PickleValue* pop();
  Items pop_to_mark();
  // The value on the stack; null if it is opaque, so that what is put into it does not matter.
  PickleValue* top(PickleKind kind, const char* opcode);

  bool scalar(unsigned char opcode);
  bool container(unsigned char opcode);
  bool memo(unsigned char opcode);
  bool object(unsigned char opcode);
  bool opaque(unsigned char opcode);

  void tuple(std::size_t size);
  void remember(std::size_t index);
  void recall(std::size_t index);
  void long_number(std::uint64_t size);
  void read_class();
  void stack_class();
  void extend(PickleValue& container, const Items& items);
  void append(const Items& items);
  void set_items(const Items& items);
  void reduce();
  void build();
  void ordered_dict(const PickleValue& arguments);
  void tensor(const PickleValue& arguments, bool first_version);
  void parameter(const PickleValue& arguments);
  void persistent_id();

  std::string_view bytes_;
  std::uint64_t at_ = 0;
  std::size_t num_items_ = 0;  // in all containers; limited, since two bytes of input can add one
  PickleDocument document_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // stack heights
  std::vector<PickleValue*> memo_;
};

}  // namespace kiln
