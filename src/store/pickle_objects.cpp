#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "base/error.h"
#include "store/pickle.h"

namespace kiln {
namespace {

struct OpcodeName {
  unsigned char opcode;
  std::string_view name;
};

// Opcodes outside the supported subset.
constexpr std::array kOpcodeNames{
    OpcodeName{'2', "DUP"},          OpcodeName{'F', "FLOAT"},
    OpcodeName{'I', "INT"},          OpcodeName{'L', "LONG"},
    OpcodeName{'P', "PERSID"},       OpcodeName{'S', "STRING"},
    OpcodeName{'V', "UNICODE"},      OpcodeName{'d', "DICT"},
    OpcodeName{'g', "GET"},          OpcodeName{'i', "INST"},
    OpcodeName{'l', "LIST"},         OpcodeName{'o', "OBJ"},
    OpcodeName{'p', "PUT"},          OpcodeName{0x82, "EXT1"},
    OpcodeName{0x83, "EXT2"},        OpcodeName{0x84, "EXT4"},
    OpcodeName{0x97, "NEXT_BUFFER"}, OpcodeName{0x98, "READONLY_BUFFER"},
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

constexpr std::size_t kMaxClassName = 200;
constexpr std::string_view kOrderedDict = "collections OrderedDict";

constexpr std::string_view kRebuildTensor = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kOldRebuildTensor = "torch._utils _rebuild_tensor";
constexpr std::string_view kRebuildParameter = "torch._utils _rebuild_parameter";
constexpr std::string_view kRebuildOwnParameter = "torch._utils _rebuild_parameter_with_state";

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

std::string describe(const PickleValue& value) {
  switch (value.kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return "a boolean";
    case PickleKind::kInt:
      return "an integer";
    case PickleKind::kFloat:
      return "a number";
    case PickleKind::kString:
      return "a string";
    case PickleKind::kTuple:
      return "a tuple";
    case PickleKind::kList:
      return "a list";
    case PickleKind::kDict:
      return value.items.empty() ? "an empty dictionary" : "a dictionary";
    case PickleKind::kClass:
      return "a class";
    case PickleKind::kStorage:
      return "a storage";
    case PickleKind::kTensor:
      return "a tensor";
    case PickleKind::kOpaque:
      return "an object of the Python class '" + std::string(value.module) +
             (value.module.empty() ? "" : ".") + std::string(value.text) + "'";
  }
  return "something unknown";
}

// The few classes, calls and storages that state dicts consist of.

void PickleMachine::read_class() {
  std::string_view lines[2];
  for (std::string_view& line : lines) {
    const std::size_t end = bytes_.substr(at_, kMaxClassName).find('\n');
    if (end == std::string_view::npos)
      throw FormatFault("its pickle has an unterminated class name");
    line = take(end);
    take(1);
  }
  push_class(lines[0], lines[1]);
}

void PickleMachine::stack_class() {
  const PickleValue* name = pop();
  const PickleValue* module = pop();
  if (name->kind != PickleKind::kString || module->kind != PickleKind::kString) {
    throw FormatFault("its pickle has a class name that is not text");
  }
  push_class(module->text.substr(0, kMaxClassName), name->text.substr(0, kMaxClassName));
}

void PickleMachine::push_class(std::string_view module, std::string_view name) {
  static constexpr std::string_view kKnown[] = {kOrderedDict, kRebuildTensor, kOldRebuildTensor,
                                                kRebuildParameter, kRebuildOwnParameter};
  const std::string full = std::string(module) + ' ' + std::string(name);
  const auto* const known = std::find(std::begin(kKnown), std::end(kKnown), full);
  DType ignored{};
  if (known != std::end(kKnown))
    make(PickleKind::kClass).text = *known;
  else if (module == "torch" && find_storage_class(name, ignored))
    make(PickleKind::kClass).text = name;
  else
    push_opaque(name, module);
}

void PickleMachine::push_opaque(std::string_view name, std::string_view module) {
  PickleValue& value = make(PickleKind::kOpaque);
  value.text = name;
  value.module = module;
}

void PickleMachine::push_object_of(const PickleValue& type, const char* what) {
  if (type.kind != PickleKind::kOpaque)
    throw FormatFault("its pickle has opcode " + std::string(what) + " on " + describe(type));
  push_opaque(type.text, type.module);
}

// What leaves an opaque value: objects of other classes, bytes, sets.
bool PickleMachine::opaque(unsigned char opcode) {
  switch (opcode) {
    case 'C':
      take(number<std::uint8_t>());
      break;
    case 'B':
      take(number<std::uint32_t>());
      break;
    case 0x8e:
    case 0x96:
      take(number<std::uint64_t>());
      break;
    case 0x8f:
      push_opaque("set");
      return true;
    case 0x91:
      pop_to_mark();
      push_opaque("frozenset");
      return true;
    case 0x90:  // the set stays on the stack
      pop_to_mark();
      push_object_of(*pop(), "ADDITEMS");
      return true;
    case 0x92:
      pop();  // keyword arguments
      [[fallthrough]];
    case 0x81:
      pop();  // arguments
      push_object_of(*pop(), "NEWOBJ");
      return true;
    default:
      return false;
  }
  push_opaque("bytes");
  return true;
}

void PickleMachine::reduce() {
  const PickleValue* arguments = pop();
  const PickleValue* callee = pop();
  if (callee->kind == PickleKind::kOpaque) return push_object_of(*callee, "REDUCE");
  if (callee->kind != PickleKind::kClass || arguments->kind != PickleKind::kTuple) {
    throw FormatFault("its pickle has opcode REDUCE on " + describe(*callee));
  }
  if (callee->text == kOrderedDict) return ordered_dict(*arguments);
  if (callee->text == kRebuildTensor) return tensor(*arguments, false);
  if (callee->text == kOldRebuildTensor) return tensor(*arguments, true);
  if (callee->text == kRebuildParameter || callee->text == kRebuildOwnParameter)
    return parameter(*arguments);
  throw FormatFault("its pickle calls the storage class '" + std::string(callee->text) + "'");
}

void PickleMachine::parameter(const PickleValue& arguments) {
  const PickleValue* data = arguments.items.empty() ? nullptr : arguments.items[0];
  if (data != nullptr && data->kind == PickleKind::kOpaque) return push_object_of(*data, "REDUCE");
  if (data == nullptr || data->kind != PickleKind::kTensor)
    throw FormatFault("its pickle has a parameter without a tensor");
  extend(make(PickleKind::kTensor), data->items);
}

// Python 3 constructs an OrderedDict without arguments, Python 2 from a list of pairs.
void PickleMachine::ordered_dict(const PickleValue& arguments) {
  PickleValue& dict = make(PickleKind::kDict);
  if (arguments.items.empty()) return;
  const PickleValue& pairs = *arguments.items[0];
  if (arguments.items.size() != 1 || pairs.kind != PickleKind::kList) {
    throw FormatFault(
        "its pickle creates an OrderedDict from something other than a list of pairs");
  }
  for (const PickleValue* pair : pairs.items) {
    const bool sequence = pair->kind == PickleKind::kList || pair->kind == PickleKind::kTuple;
    if (!sequence || pair->items.size() != 2) {
      throw FormatFault("its pickle creates an OrderedDict from something other than pairs");
    }
    extend(dict, pair->items);
  }
}

void PickleMachine::tensor(const PickleValue& arguments, bool first_version) {
  const auto& items = arguments.items;
  if (!items.empty() && items[0]->kind == PickleKind::kOpaque)
    return push_object_of(*items[0], "REDUCE");  // elements of a type that no weights have
  const std::size_t least = first_version ? 4 : 6;
  const auto is = [&](std::size_t i, PickleKind kind) { return items[i]->kind == kind; };
  if (items.size() < least || items.size() > least + 1 || !is(0, PickleKind::kStorage) ||
      !is(1, PickleKind::kInt) || !is(2, PickleKind::kTuple) || !is(3, PickleKind::kTuple)) {
    throw FormatFault("its pickle has a tensor without storage, offset, shape and strides");
  }
  extend(make(PickleKind::kTensor), Items(items.begin(), items.begin() + 4));
}

// BUILD sets attributes. A state_dict() has only `_metadata`, which holds no weights.
void PickleMachine::build() {
  pop();
  top(PickleKind::kDict, "BUILD");
}

// A storage: ("storage", class, key, device, number of elements). Old files add a view: None or
// (key, first element, number of elements).
void PickleMachine::persistent_id() {
  const PickleValue* id = pop();
  const auto& items = id->items;
  const auto is = [&](std::size_t i, PickleKind kind) { return items[i]->kind == kind; };
  const bool is_tuple = id->kind == PickleKind::kTuple && items.size() >= 4;
  // ("module", class, file, source code) in old files, or a storage of another type
  if (is_tuple && (items[0]->text == "module" || items[0]->text == "storage") &&
      items[1]->kind == PickleKind::kOpaque)
    return push_object_of(*items[1], "BINPERSID");
  DType dtype{};
  if (id->kind != PickleKind::kTuple || items.size() < 5 || items.size() > 6 ||
      !is(0, PickleKind::kString) || items[0]->text != "storage" || !is(1, PickleKind::kClass) ||
      !find_storage_class(items[1]->text, dtype) || !is(2, PickleKind::kString) ||
      !is(3, PickleKind::kString) || !is(4, PickleKind::kInt) || items[4]->number < 0) {
    throw FormatFault("its pickle refers to something that is not a storage of a known type");
  }
  PickleValue& storage = make(PickleKind::kStorage);
  storage.dtype = dtype;
  storage.text = items[2]->text;
  storage.number = items[4]->number;
  if (items.size() == 5 || is(5, PickleKind::kNone)) return;
  const auto& view = items[5]->items;
  if (!is(5, PickleKind::kTuple) || view.size() != 3 || view[1]->kind != PickleKind::kInt ||
      view[2]->kind != PickleKind::kInt) {
    throw FormatFault("its pickle has a storage with a broken view");
  }
  storage.items = view;
}

}  // namespace kiln
