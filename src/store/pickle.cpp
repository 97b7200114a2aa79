#include "store/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxStack = 1'000'000;
constexpr std::size_t kMaxItems = 4'000'000;  // pointers in containers, including copies

}  // namespace

PickleValue& PickleMachine::make(PickleKind kind) {
  if (document_.values.size() >= kMaxValues) {
    throw FormatFault("its pickle holds more than " + std::to_string(kMaxValues) + " values");
  }
  PickleValue& value = document_.values.emplace_back();
  value.kind = kind;
  push(&value);
  return value;
}

void PickleMachine::push(PickleValue* value) {
  if (stack_.size() >= kMaxStack) throw FormatFault("its pickle nests too deeply for the stack");
  stack_.push_back(value);
}

PickleValue* PickleMachine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    throw FormatFault("its pickle takes a value from an empty stack");
  }
  PickleValue* value = stack_.back();
  stack_.pop_back();
  return value;
}

PickleMachine::Items PickleMachine::pop_to_mark() {
  if (marks_.empty()) throw FormatFault("its pickle closes a group that was never opened");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  Items items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

PickleValue* PickleMachine::top(PickleKind kind, const char* opcode) {
  PickleValue* value = pop();
  push(value);
  if (value->kind == kind) return value;
  if (value->kind == PickleKind::kOpaque) return nullptr;
  throw FormatFault("its pickle has opcode " + std::string(opcode) + " on " + describe(*value));
}

PickleDocument PickleMachine::run() {
  while (true) {
    const std::uint64_t position = at_;
    const auto opcode = number<std::uint8_t>();
    if (position == 0 && opcode != 0x80) throw FormatFault("its pickle does not begin with PROTO");
    if (opcode == '.') break;
    if (scalar(opcode) || container(opcode) || memo(opcode) || object(opcode) || opaque(opcode))
      continue;
    throw FormatFault("its pickle has opcode " + opcode_name(opcode) + " at offset " +
                      std::to_string(position) + ", which no state dict needs");
  }
  document_.root = pop();
  if (!stack_.empty() || !marks_.empty()) throw FormatFault("its pickle ends with open groups");
  document_.size = at_;
  return std::move(document_);
}

bool PickleMachine::scalar(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      make(PickleKind::kNone);
      return true;
    case 0x88:
      push_number(PickleKind::kBool, 1);
      return true;
    case 0x89:
      push_number(PickleKind::kBool, 0);
      return true;
    case 'K':
      push_number(PickleKind::kInt, number<std::uint8_t>());
      return true;
    case 'M':
      push_number(PickleKind::kInt, number<std::uint16_t>());
      return true;
    case 'J':
      push_number(PickleKind::kInt, std::bit_cast<std::int32_t>(number<std::uint32_t>()));
      return true;
    case 0x8a:
      long_number(number<std::uint8_t>());
      return true;
    case 0x8b:
      long_number(number<std::uint32_t>());
      return true;
    case 'G':
      take(8);  // no state dict depends on its value
      make(PickleKind::kFloat);
      return true;
    case 'U':
    case 0x8c:
      push_text(take(number<std::uint8_t>()));
      return true;
    case 'T':
    case 'X':
      push_text(take(number<std::uint32_t>()));
      return true;
    case 0x8d:
      push_text(take(number<std::uint64_t>()));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::container(unsigned char opcode) {
  switch (opcode) {
    case '(':
      if (marks_.size() >= kMaxStack) throw FormatFault("its pickle is nested too deeply");
      marks_.push_back(stack_.size());
      return true;
    case '}':
      make(PickleKind::kDict);
      return true;
    case ']':
      make(PickleKind::kList);
      return true;
    case ')':
      tuple(0);
      return true;
    case 0x85:
      tuple(1);
      return true;
    case 0x86:
      tuple(2);
      return true;
    case 0x87:
      tuple(3);
      return true;
    case 't': {
      const Items items = pop_to_mark();
      extend(make(PickleKind::kTuple), items);
      return true;
    }
    case 'a':
      append({pop()});
      return true;
    case 'e':
      append(pop_to_mark());
      return true;
    case 's': {
      const PickleValue* value = pop();
      const PickleValue* key = pop();
      set_items({key, value});
      return true;
    }
    case 'u':
      set_items(pop_to_mark());
      return true;
    case '0':  // POP and POP_MARK drop what a tuple that contains itself left
      pop();
      return true;
    case '1':
      pop_to_mark();
      return true;
    default:
      return false;
  }
}

bool PickleMachine::memo(unsigned char opcode) {
  switch (opcode) {
    case 'q':
      remember(number<std::uint8_t>());
      return true;
    case 'r':
      remember(number<std::uint32_t>());
      return true;
    case 0x94:
      remember(memo_.size());
      return true;
    case 'h':
      recall(number<std::uint8_t>());
      return true;
    case 'j':
      recall(number<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::object(unsigned char opcode) {
  switch (opcode) {
    case 0x80: {
      const auto protocol = number<std::uint8_t>();
      if (protocol >= 2 && protocol <= 5) return true;
      throw FormatFault("its pickle has protocol " + std::to_string(protocol) + ", not 2 to 5");
    }
    case 0x95:
      number<std::uint64_t>();
      return true;  // FRAME: a hint for buffered readers
    case 'c':
      read_class();
      return true;
    case 0x93:
      stack_class();
      return true;
    case 'R':
      reduce();
      return true;
    case 'b':
      build();
      return true;
    case 'Q':
      persistent_id();
      return true;
    default:
      return false;
  }
}

void PickleMachine::tuple(std::size_t size) {
  Items items(size);
  for (std::size_t i = size; i-- > 0;) items[i] = pop();
  extend(make(PickleKind::kTuple), items);
}

void PickleMachine::remember(std::size_t index) {
  // Python numbers memo entries with few gaps, so a huge index is an attempt to exhaust memory.
  if (index >= kMaxValues) throw FormatFault("its pickle has a memo index that is too large");
  PickleValue* value = pop();
  push(value);
  if (index >= memo_.size()) memo_.resize(index + 1);
  memo_[index] = value;
}

void PickleMachine::recall(std::size_t index) {
  if (index >= memo_.size() || memo_[index] == nullptr) {
    throw FormatFault("its pickle uses memo entry " + std::to_string(index) + " before it is set");
  }
  push(memo_[index]);
}

void PickleMachine::long_number(std::uint64_t size) {
  const std::string_view digits = take(size);
  if (digits.size() > 8) return push_opaque("int");  // the state of a random generator
  const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = digits.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(digits[i]);
  }
  push_number(PickleKind::kInt, std::bit_cast<std::int64_t>(value));
}

void PickleMachine::extend(PickleValue& container, const Items& items) {
  num_items_ += items.size();
  if (num_items_ > kMaxItems) {
    throw FormatFault("the containers of its pickle hold more than " + std::to_string(kMaxItems) +
                      " items");
  }
  container.items.insert(container.items.end(), items.begin(), items.end());
}

void PickleMachine::append(const Items& items) {
  if (PickleValue* list = top(PickleKind::kList, "APPEND")) extend(*list, items);
}

void PickleMachine::set_items(const Items& items) {
  if (items.size() % 2 != 0) throw FormatFault("its pickle has a dictionary key without a value");
  if (PickleValue* dict = top(PickleKind::kDict, "SETITEM")) extend(*dict, items);
}

PickleDocument read_pickle(std::string_view bytes) {
  return PickleMachine(bytes).run();
}

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
