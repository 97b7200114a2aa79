// The stack machine behind read_pickle, private to it: pickle_reader.cpp runs it and keeps stack,
// memo and containers, pickle_objects.cpp knows the classes.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <vector>

#include "store/byte_reader.h"
#include "store/pickle_reader.h"

namespace kiln {

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

}  // namespace kiln
