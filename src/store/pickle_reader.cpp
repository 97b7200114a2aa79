#include "store/pickle.h"

#include <bit>
#include <string>
#include <utility>

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

}  // namespace kiln
