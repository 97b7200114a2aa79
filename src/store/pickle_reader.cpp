#include "store/pickle_reader.h"

#include <bit>
#include <string>
#include <utility>

#include "store/byte_reader.h"
#include "store/pickle_names.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxStack = 1'000'000;
constexpr std::size_t kMaxClassName = 200;
constexpr std::string_view kOrderedDict = "collections OrderedDict";

bool is_known_class(std::string_view name) {
  DType ignored;
  return name == kOrderedDict || name == "torch._utils _rebuild_tensor_v2" ||
         name == "torch._utils _rebuild_tensor" || name == "torch._utils _rebuild_parameter" ||
         (name.starts_with("torch ") && find_storage_class(name.substr(6), ignored));
}

std::string dotted(std::string_view name) {
  std::string text(name);
  if (const auto space = text.find(' '); space != std::string::npos) text[space] = '.';
  return text;
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}
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
  PickleValue* pop();
  Items pop_to_mark();
  PickleValue* top(PickleKind kind, const char* opcode);

  bool scalar(unsigned char opcode);
  bool container(unsigned char opcode);
  bool memo(unsigned char opcode);
  bool object(unsigned char opcode);

  void tuple(std::size_t size);
  void remember(std::size_t index);
  void recall(std::size_t index);
  void long1();
  void read_class();
  void stack_class();
  void append(const Items& items);
  void set_items(const Items& items);
  void reduce();
  void build();
  void ordered_dict(const PickleValue& arguments);
  void tensor(const PickleValue& arguments, bool first_version);
  void persistent_id();

  std::string_view bytes_;
  std::uint64_t at_ = 0;
  PickleDocument document_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::vector<PickleValue*> memo_;
};

PickleValue& Machine::make(PickleKind kind) {
  if (document_.values.size() >= kMaxValues) {
    throw FormatFault("its pickle holds more than " + std::to_string(kMaxValues) + " values");
  }
  PickleValue& value = document_.values.emplace_back();
  value.kind = kind;
  push(&value);
  return value;
}

void Machine::push(PickleValue* value) {
  if (stack_.size() >= kMaxStack) throw FormatFault("its pickle needs too deep a stack");
  stack_.push_back(value);
}

PickleValue* Machine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    throw FormatFault("its pickle takes a value from an empty stack");
  }
  PickleValue* value = stack_.back();
  stack_.pop_back();
  return value;
}

Machine::Items Machine::pop_to_mark() {
  if (marks_.empty()) throw FormatFault("its pickle closes a group that was never opened");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  Items items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

PickleValue* Machine::top(PickleKind kind, const char* opcode) {
  PickleValue* value = pop();
  push(value);
  if (value->kind == kind) return value;
  throw FormatFault("its pickle has opcode " + std::string(opcode) + " on " +
                    std::string(describe(value->kind)));
}

PickleDocument Machine::run() {
  while (true) {
    const std::uint64_t position = at_;
    const auto opcode = number<std::uint8_t>();
    if (position == 0 && opcode != 0x80) throw FormatFault("its pickle does not begin with PROTO");
    if (opcode == '.') break;
    if (scalar(opcode) || container(opcode) || memo(opcode) || object(opcode)) continue;
    throw FormatFault("its pickle has opcode " + opcode_name(opcode) + " at offset " +
                      std::to_string(position) + ", which no state dict needs");
  }
  document_.root = pop();
  if (!stack_.empty() || !marks_.empty()) throw FormatFault("its pickle ends with open groups");
  document_.size = at_;
  return std::move(document_);
}

bool Machine::scalar(unsigned char opcode) {
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
      long1();
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

bool Machine::container(unsigned char opcode) {
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
      Items items = pop_to_mark();
      make(PickleKind::kTuple).items = std::move(items);
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
    default:
      return false;
  }
}

bool Machine::memo(unsigned char opcode) {
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

bool Machine::object(unsigned char opcode) {
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

void Machine::tuple(std::size_t size) {
  Items items(size);
  for (std::size_t i = size; i-- > 0;) items[i] = pop();
  make(PickleKind::kTuple).items = std::move(items);
}

void Machine::remember(std::size_t index) {
  // Python numbers memo entries without gaps worth mentioning, so a far index is an attack on
  // memory.
  if (index >= kMaxValues) throw FormatFault("its pickle has a memo index that is too large");
  PickleValue* value = pop();
  push(value);
  if (index >= memo_.size()) memo_.resize(index + 1);
  memo_[index] = value;
}

void Machine::recall(std::size_t index) {
  if (index >= memo_.size() || memo_[index] == nullptr) {
    throw FormatFault("its pickle uses memo entry " + std::to_string(index) + " before it is set");
  }
  push(memo_[index]);
}

void Machine::long1() {
  const std::string_view digits = take(number<std::uint8_t>());
  if (digits.size() > 8) throw FormatFault("its pickle has a number of more than 64 bits");
  const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = digits.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(digits[i]);
  }
  push_number(PickleKind::kInt, std::bit_cast<std::int64_t>(value));
}

void Machine::read_class() {
  std::string_view lines[2];
  for (std::string_view& line : lines) {
    const std::size_t end = bytes_.substr(at_, kMaxClassName).find('\n');
    if (end == std::string_view::npos) throw FormatFault("its pickle has an endless class name");
    line = take(end);
    take(1);
  }
  push_class(lines[0], lines[1]);
}

void Machine::stack_class() {
  const PickleValue* name = pop();
  const PickleValue* module = pop();
  if (name->kind != PickleKind::kString || module->kind != PickleKind::kString) {
    throw FormatFault("its pickle names a class by something that is not text");
  }
  push_class(module->text.substr(0, kMaxClassName), name->text.substr(0, kMaxClassName));
}

void Machine::push_class(std::string_view module, std::string_view name) {
  const std::string full = std::string(module) + ' ' + std::string(name);
  if (!is_known_class(full)) {
    throw FormatFault("its pickle wants the Python object '" + dotted(full) +
                      "', which no state dict needs; it is refused");
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

void Machine::append(const Items& items) {
  PickleValue* list = top(PickleKind::kList, "APPEND");
  list->items.insert(list->items.end(), items.begin(), items.end());
}

void Machine::set_items(const Items& items) {
  if (items.size() % 2 != 0) throw FormatFault("its pickle has a dictionary key without a value");
  PickleValue* dict = top(PickleKind::kDict, "SETITEM");
  dict->items.insert(dict->items.end(), items.begin(), items.end());
}

void Machine::reduce() {
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
    copy.items = data.items;
    return;
  }
  throw FormatFault("its pickle calls the storage class '" + std::string(callee->text) + "'");
}

// Python 3 makes it without arguments, Python 2 from a list of pairs.
void Machine::ordered_dict(const PickleValue& arguments) {
  PickleValue& dict = make(PickleKind::kDict);
  if (arguments.items.empty()) return;
  const PickleValue& pairs = *arguments.items[0];
  if (arguments.items.size() != 1 || pairs.kind != PickleKind::kList) {
    throw FormatFault("its pickle makes an OrderedDict of something that is not a list of pairs");
  }
  for (const PickleValue* pair : pairs.items) {
    const bool sequence = pair->kind == PickleKind::kList || pair->kind == PickleKind::kTuple;
    if (!sequence || pair->items.size() != 2) {
      throw FormatFault("its pickle makes an OrderedDict of something that is not a pair");
    }
    dict.items.insert(dict.items.end(), pair->items.begin(), pair->items.end());
  }
}

void Machine::tensor(const PickleValue& arguments, bool first_version) {
  const auto& items = arguments.items;
  const std::size_t least = first_version ? 4 : 6;
  const auto is = [&](std::size_t i, PickleKind kind) { return items[i]->kind == kind; };
  if (items.size() < least || items.size() > least + 1 || !is(0, PickleKind::kStorage) ||
      !is(1, PickleKind::kInt) || !is(2, PickleKind::kTuple) || !is(3, PickleKind::kTuple)) {
    throw FormatFault(
        "its pickle has a tensor that is not made of storage, offset, shape, strides");
  }
  make(PickleKind::kTensor).items.assign(items.begin(), items.begin() + 4);
}

// BUILD sets attributes; state_dict() has one, `_metadata`, which holds no weights.
void Machine::build() {
  pop();
  top(PickleKind::kDict, "BUILD");
}

// ("storage", class, key, device, elements), in old files also a view: None or (key, first element,
// elements).
void Machine::persistent_id() {
  const PickleValue* id = pop();
  const auto& items = id->items;
  const auto is = [&](std::size_t i, PickleKind kind) { return items[i]->kind == kind; };
  DType dtype;
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

}  // namespace

std::string_view describe(PickleKind kind) {
  switch (kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return "a truth value";
    case PickleKind::kInt:
      return "a whole number";
    case PickleKind::kFloat:
      return "a number";
    case PickleKind::kString:
      return "a text";
    case PickleKind::kTuple:
      return "a tuple";
    case PickleKind::kList:
      return "a list";
    case PickleKind::kDict:
      return "a dictionary";
    case PickleKind::kClass:
      return "a class";
    case PickleKind::kStorage:
      return "a storage";
    case PickleKind::kTensor:
      return "a tensor";
  }
  return "something unknown";
}

PickleDocument read_pickle(std::string_view bytes) {
  return Machine(bytes).run();
}

}  // namespace kiln
