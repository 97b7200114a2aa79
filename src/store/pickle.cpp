#include "store/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxStack = 1'000'000;
constexpr std::size_t kMaxItems = 4'000'000;  // pointers in containers, including copies
constexpr std::size_t kMaxClassName = 200;
constexpr std::string_view kOrderedDict = "collections OrderedDict";

constexpr std::string_view kRebuildTensor = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kOldRebuildTensor = "torch._utils _rebuild_tensor";
constexpr std::string_view kRebuildParameter = "torch._utils _rebuild_parameter";
constexpr std::string_view kRebuildOwnParameter = "torch._utils _rebuild_parameter_with_state";

// The type of torch's storage class `name`; null if it is not a known one.
const DTypeFacts* find_storage_class(std::string_view name) {
  const auto* const found = std::ranges::find(kDTypes, name, &DTypeFacts::storage);
  return found == kDTypes.end() ? nullptr : found;
}

// The stack machine behind read_pickle().
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  PickleDocument run() {
    static const std::array kSteps = make_steps();
    while (true) {
      const std::uint64_t position = at_;
      const auto opcode = number<std::uint8_t>();
      if (position == 0 && opcode != 0x80)
        throw FormatFault("its pickle does not begin with PROTO");
      if (opcode == '.') break;
      if (kSteps[opcode] == nullptr)
        throw FormatFault(formatted("its pickle has opcode 0x%02x at offset ", opcode) +
                          std::to_string(position) + ", which no state dict needs");
      kSteps[opcode](*this);
    }
    document_.root = pop();
    if (!stack_.empty() || !marks_.empty()) throw FormatFault("its pickle ends with open groups");
    document_.size = at_;
    return std::move(document_);
  }

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

  void push_int(std::int64_t value) { make(PickleKind::kInt).number = value; }
  void push_text(std::string_view text) { make(PickleKind::kString).text = text; }
  void skip_bytes(std::uint64_t size) {
    take(size);
    push_opaque("bytes");
  }

  PickleValue& make(PickleKind kind) {
    if (document_.values.size() >= kMaxValues)
      throw FormatFault("its pickle holds more than " + std::to_string(kMaxValues) + " values");
    PickleValue& value = document_.values.emplace_back();
    value.kind = kind;
    push(&value);
    return value;
  }

  void push(PickleValue* value) {
    if (stack_.size() >= kMaxStack) throw FormatFault("its pickle nests too deeply for the stack");
    stack_.push_back(value);
  }

  PickleValue* pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
      throw FormatFault("its pickle takes a value from an empty stack");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  Items pop_to_mark() {
    if (marks_.empty()) throw FormatFault("its pickle closes a group that was never opened");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    Items items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  // The value on the stack; null if it is opaque, so that what is put into it does not matter.
  PickleValue* top(PickleKind kind, const char* opcode) {
    PickleValue* value = pop();
    push(value);
    if (value->kind == kind) return value;
    if (value->kind == PickleKind::kOpaque) return nullptr;
    throw FormatFault("its pickle has opcode " + std::string(opcode) + " on " + describe(*value));
  }

  void tuple(std::size_t size) {
    Items items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    extend(make(PickleKind::kTuple), items);
  }

  void remember(std::size_t index) {
    // Python numbers memo entries with few gaps, so a huge index is an attempt to exhaust memory.
    if (index >= kMaxValues) throw FormatFault("its pickle has a memo index that is too large");
    PickleValue* value = pop();
    push(value);
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = value;
  }

  void recall(std::size_t index) {
    if (index >= memo_.size() || memo_[index] == nullptr)
      throw FormatFault("its pickle uses memo entry " + std::to_string(index) +
                        " before it is set");
    push(memo_[index]);
  }

  void long_number(std::uint64_t size) {
    const std::string_view digits = take(size);
    if (digits.size() > 8) return push_opaque("int");  // the state of a random generator
    const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(digits[i]);
    push_int(std::bit_cast<std::int64_t>(value));
  }

  void extend(PickleValue& container, const Items& items) {
    num_items_ += items.size();
    if (num_items_ > kMaxItems)
      throw FormatFault("the containers of its pickle hold more than " + std::to_string(kMaxItems) +
                        " items");
    container.items.insert(container.items.end(), items.begin(), items.end());
  }

  void append(const Items& items) {
    if (PickleValue* list = top(PickleKind::kList, "APPEND")) extend(*list, items);
  }

  void set_items(const Items& items) {
    if (items.size() % 2 != 0) throw FormatFault("its pickle has a dictionary key without a value");
    if (PickleValue* dict = top(PickleKind::kDict, "SETITEM")) extend(*dict, items);
  }

  void read_class() {
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

  void stack_class() {
    const PickleValue* name = pop();
    const PickleValue* module = pop();
    if (name->kind != PickleKind::kString || module->kind != PickleKind::kString)
      throw FormatFault("its pickle has a class name that is not text");
    push_class(module->text.substr(0, kMaxClassName), name->text.substr(0, kMaxClassName));
  }

  void push_class(std::string_view module, std::string_view name) {
    static constexpr std::string_view kKnown[] = {kOrderedDict, kRebuildTensor, kOldRebuildTensor,
                                                  kRebuildParameter, kRebuildOwnParameter};
    const std::string full = std::string(module) + ' ' + std::string(name);
    const auto* const known = std::find(std::begin(kKnown), std::end(kKnown), full);
    if (known != std::end(kKnown))
      make(PickleKind::kClass).text = *known;
    else if (module == "torch" && find_storage_class(name) != nullptr)
      make(PickleKind::kClass).text = name;
    else
      push_opaque(name, module);
  }

  void push_opaque(std::string_view name, std::string_view module = {}) {
    PickleValue& value = make(PickleKind::kOpaque);
    value.text = name;
    value.module = module;
  }

  // An object of a class that is not known; `what` made it.
  void push_object_of(const PickleValue& type, const char* what) {
    if (type.kind != PickleKind::kOpaque)
      throw FormatFault("its pickle has opcode " + std::string(what) + " on " + describe(type));
    push_opaque(type.text, type.module);
  }

  void reduce() {
    const PickleValue* arguments = pop();
    const PickleValue* callee = pop();
    if (callee->kind == PickleKind::kOpaque) return push_object_of(*callee, "REDUCE");
    if (callee->kind != PickleKind::kClass || arguments->kind != PickleKind::kTuple)
      throw FormatFault("its pickle has opcode REDUCE on " + describe(*callee));
    if (callee->text == kOrderedDict) return ordered_dict(*arguments);
    if (callee->text == kRebuildTensor) return tensor(*arguments, false);
    if (callee->text == kOldRebuildTensor) return tensor(*arguments, true);
    if (callee->text == kRebuildParameter || callee->text == kRebuildOwnParameter)
      return parameter(*arguments);
    throw FormatFault("its pickle calls the storage class '" + std::string(callee->text) + "'");
  }

  void parameter(const PickleValue& arguments) {
    const PickleValue* data = arguments.items.empty() ? nullptr : arguments.items[0];
    if (data != nullptr && data->kind == PickleKind::kOpaque)
      return push_object_of(*data, "REDUCE");
    if (data == nullptr || data->kind != PickleKind::kTensor)
      throw FormatFault("its pickle has a parameter without a tensor");
    extend(make(PickleKind::kTensor), data->items);
  }

  // Python 3 constructs an OrderedDict without arguments, Python 2 from a list of pairs.
  void ordered_dict(const PickleValue& arguments) {
    PickleValue& dict = make(PickleKind::kDict);
    if (arguments.items.empty()) return;
    const PickleValue& pairs = *arguments.items[0];
    if (arguments.items.size() != 1 || pairs.kind != PickleKind::kList)
      throw FormatFault(
          "its pickle creates an OrderedDict from something other than a list of pairs");
    for (const PickleValue* pair : pairs.items) {
      const bool sequence = pair->kind == PickleKind::kList || pair->kind == PickleKind::kTuple;
      if (!sequence || pair->items.size() != 2)
        throw FormatFault("its pickle creates an OrderedDict from something other than pairs");
      extend(dict, pair->items);
    }
  }

  void tensor(const PickleValue& arguments, bool first_version) {
    const auto& items = arguments.items;
    if (!items.empty() && items[0]->kind == PickleKind::kOpaque)
      return push_object_of(*items[0], "REDUCE");  // elements of a type that no weights have
    const std::size_t least = first_version ? 4 : 6;
    const auto is = [&](std::size_t i, PickleKind kind) { return items[i]->kind == kind; };
    if (items.size() < least || items.size() > least + 1 || !is(0, PickleKind::kStorage) ||
        !is(1, PickleKind::kInt) || !is(2, PickleKind::kTuple) || !is(3, PickleKind::kTuple))
      throw FormatFault("its pickle has a tensor without storage, offset, shape and strides");
    extend(make(PickleKind::kTensor), Items(items.begin(), items.begin() + 4));
  }

  // A storage: ("storage", class, key, device, number of elements). Old files add a view: None or
  // (key, first element, number of elements).
  void persistent_id() {
    const PickleValue* id = pop();
    const auto& items = id->items;
    const auto is = [&](std::size_t i, PickleKind kind) { return items[i]->kind == kind; };
    const bool is_tuple = id->kind == PickleKind::kTuple && items.size() >= 4;
    // ("module", class, file, source code) in old files, or a storage of another type
    if (is_tuple && (items[0]->text == "module" || items[0]->text == "storage") &&
        items[1]->kind == PickleKind::kOpaque)
      return push_object_of(*items[1], "BINPERSID");
    if (id->kind != PickleKind::kTuple || items.size() < 5 || items.size() > 6 ||
        !is(0, PickleKind::kString) || items[0]->text != "storage" || !is(1, PickleKind::kClass) ||
        find_storage_class(items[1]->text) == nullptr || !is(2, PickleKind::kString) ||
        !is(3, PickleKind::kString) || !is(4, PickleKind::kInt) || items[4]->number < 0)
      throw FormatFault("its pickle refers to something that is not a storage of a known type");
    PickleValue& storage = make(PickleKind::kStorage);
    storage.dtype = find_storage_class(items[1]->text)->dtype;
    storage.text = items[2]->text;
    storage.number = items[4]->number;
    if (items.size() == 5 || is(5, PickleKind::kNone)) return;
    const auto& view = items[5]->items;
    if (!is(5, PickleKind::kTuple) || view.size() != 3 || view[1]->kind != PickleKind::kInt ||
        view[2]->kind != PickleKind::kInt)
      throw FormatFault("its pickle has a storage with a broken view");
    storage.items = view;
  }

  // What each opcode does; null: no state dict needs it.
  using Step = void (*)(PickleMachine& m);
  static std::array<Step, 256> make_steps() {
    using M = PickleMachine;
    using enum PickleKind;
    std::array<Step, 256> steps{};
    steps['N'] = [](M& m) { m.make(kNone); };
    steps[0x88] = [](M& m) { m.make(kBool).number = 1; };
    steps[0x89] = [](M& m) { m.make(kBool); };
    steps['K'] = [](M& m) { m.push_int(m.number<std::uint8_t>()); };
    steps['M'] = [](M& m) { m.push_int(m.number<std::uint16_t>()); };
    steps['J'] = [](M& m) { m.push_int(std::bit_cast<std::int32_t>(m.number<std::uint32_t>())); };
    steps[0x8a] = [](M& m) { m.long_number(m.number<std::uint8_t>()); };
    steps[0x8b] = [](M& m) { m.long_number(m.number<std::uint32_t>()); };
    steps['G'] = [](M& m) {
      m.take(8);  // no state dict depends on its value
      m.make(kFloat);
    };
    steps['U'] = steps[0x8c] = [](M& m) { m.push_text(m.take(m.number<std::uint8_t>())); };
    steps['T'] = steps['X'] = [](M& m) { m.push_text(m.take(m.number<std::uint32_t>())); };
    steps[0x8d] = [](M& m) { m.push_text(m.take(m.number<std::uint64_t>())); };
    steps['('] = [](M& m) {
      if (m.marks_.size() >= kMaxStack) throw FormatFault("its pickle is nested too deeply");
      m.marks_.push_back(m.stack_.size());
    };
    steps['}'] = [](M& m) { m.make(kDict); };
    steps[']'] = [](M& m) { m.make(kList); };
    steps[')'] = [](M& m) { m.tuple(0); };
    steps[0x85] = [](M& m) { m.tuple(1); };
    steps[0x86] = [](M& m) { m.tuple(2); };
    steps[0x87] = [](M& m) { m.tuple(3); };
    steps['t'] = [](M& m) {
      const Items items = m.pop_to_mark();
      m.extend(m.make(kTuple), items);
    };
    steps['a'] = [](M& m) { m.append({m.pop()}); };
    steps['e'] = [](M& m) { m.append(m.pop_to_mark()); };
    steps['s'] = [](M& m) {
      const PickleValue* value = m.pop();
      const PickleValue* key = m.pop();
      m.set_items({key, value});
    };
    steps['u'] = [](M& m) { m.set_items(m.pop_to_mark()); };
    // POP and POP_MARK drop what a tuple that contains itself left.
    steps['0'] = [](M& m) { m.pop(); };
    steps['1'] = [](M& m) { m.pop_to_mark(); };
    steps['q'] = [](M& m) { m.remember(m.number<std::uint8_t>()); };
    steps['r'] = [](M& m) { m.remember(m.number<std::uint32_t>()); };
    steps[0x94] = [](M& m) { m.remember(m.memo_.size()); };
    steps['h'] = [](M& m) { m.recall(m.number<std::uint8_t>()); };
    steps['j'] = [](M& m) { m.recall(m.number<std::uint32_t>()); };
    steps[0x80] = [](M& m) {
      const auto protocol = m.number<std::uint8_t>();
      if (protocol < 2 || protocol > 5)
        throw FormatFault("its pickle has protocol " + std::to_string(protocol) + ", not 2 to 5");
    };
    steps[0x95] = [](M& m) { m.number<std::uint64_t>(); };  // FRAME: a hint for buffered readers
    steps['c'] = [](M& m) { m.read_class(); };
    steps[0x93] = [](M& m) { m.stack_class(); };
    steps['R'] = [](M& m) { m.reduce(); };
    // BUILD sets attributes. A state_dict() has only `_metadata`, which holds no weights.
    steps['b'] = [](M& m) {
      m.pop();
      m.top(kDict, "BUILD");
    };
    steps['Q'] = [](M& m) { m.persistent_id(); };
    // These leave an opaque value: objects of other classes, bytes, sets.
    steps['C'] = [](M& m) { m.skip_bytes(m.number<std::uint8_t>()); };
    steps['B'] = [](M& m) { m.skip_bytes(m.number<std::uint32_t>()); };
    steps[0x8e] = steps[0x96] = [](M& m) { m.skip_bytes(m.number<std::uint64_t>()); };
    steps[0x8f] = [](M& m) { m.push_opaque("set"); };
    steps[0x91] = [](M& m) {
      m.pop_to_mark();
      m.push_opaque("frozenset");
    };
    steps[0x90] = [](M& m) {  // the set stays on the stack
      m.pop_to_mark();
      m.push_object_of(*m.pop(), "ADDITEMS");
    };
    steps[0x81] = [](M& m) {
      m.pop();  // arguments
      m.push_object_of(*m.pop(), "NEWOBJ");
    };
    steps[0x92] = [](M& m) {
      m.pop();  // keyword arguments
      m.pop();  // arguments
      m.push_object_of(*m.pop(), "NEWOBJ");
    };
    return steps;
  }

  std::string_view bytes_;
  std::uint64_t at_ = 0;
  std::size_t num_items_ = 0;  // in all containers; limited, since two bytes of input can add one
  PickleDocument document_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // stack heights
  std::vector<PickleValue*> memo_;
};

}  // namespace

std::string describe(const PickleValue& value) {
  constexpr std::array kNames{"None",     "a boolean", "an integer", "a number",
                              "a string", "a tuple",   "a list",     "a dictionary",
                              "a class",  "a storage", "a tensor"};
  if (value.module.starts_with("numpy") && value.text == "_reconstruct") return "a numpy array";
  if (value.kind == PickleKind::kOpaque)
    return "an object of the Python class '" + std::string(value.module) +
           (value.module.empty() ? "" : ".") + std::string(value.text) + "'";
  if (value.kind == PickleKind::kDict && value.items.empty()) return "an empty dictionary";
  return kNames.at(static_cast<std::size_t>(value.kind));
}

PickleDocument read_pickle(std::string_view bytes) {
  return PickleMachine(bytes).run();
}

}  // namespace kiln
