#include <array>
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

constexpr std::size_t kMaxClassName = 200;
constexpr std::string_view kOrderedDict = "collections OrderedDict";

bool is_known_class(std::string_view name) {
  DType ignored{};
  return name == kOrderedDict || name == "torch._utils _rebuild_tensor_v2" ||
         name == "torch._utils _rebuild_tensor" || name == "torch._utils _rebuild_parameter" ||
         (name.starts_with("torch ") && find_storage_class(name.substr(6), ignored));
}

std::string dotted(std::string_view name) {
  std::string text(name);
  if (const auto space = text.find(' '); space != std::string::npos) text[space] = '.';
  return text;
}

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
  const std::string full = std::string(module) + ' ' + std::string(name);
  if (!is_known_class(full)) {
    throw FormatFault("its pickle refers to the Python object '" + dotted(full) +
                      "', which no state dict needs");
  }
  static constexpr std::string_view kKnown[] = {kOrderedDict, "torch._utils _rebuild_tensor_v2",
                                                "torch._utils _rebuild_tensor",
                                                "torch._utils _rebuild_parameter"};
  PickleValue& value = make(PickleKind::kClass);
  value.text = name;
  for (const std::string_view known : kKnown) {
    if (full == known) value.text = known;
  }
}

void PickleMachine::reduce() {
  const PickleValue* arguments = pop();
  const PickleValue* callee = pop();
  if (callee->kind != PickleKind::kClass || arguments->kind != PickleKind::kTuple) {
    throw FormatFault("its pickle has opcode REDUCE on " + std::string(describe(callee->kind)));
  }
  if (callee->text == kOrderedDict) return ordered_dict(*arguments);
  if (callee->text == "torch._utils _rebuild_tensor_v2") return tensor(*arguments, false);
  if (callee->text == "torch._utils _rebuild_tensor") return tensor(*arguments, true);
  if (callee->text == "torch._utils _rebuild_parameter") {
    if (arguments->items.empty() || arguments->items[0]->kind != PickleKind::kTensor) {
      throw FormatFault("its pickle has a parameter without a tensor");
    }
    const PickleValue& data = *arguments->items[0];
    PickleValue& copy = make(PickleKind::kTensor);
    extend(copy, data.items);
    return;
  }
  throw FormatFault("its pickle calls the storage class '" + std::string(callee->text) + "'");
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
