// The one byte form of values that other ranks or later runs of this build read: numbers and plain
// structs as they are in memory; a text or list as its length in 8 bytes, then its items; any other
// struct as the members that its visit_fields(value, field) names, in order: it calls field(name,
// member) for each, which fields() below does.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace kiln {

// Types whose bytes are their value.
template <typename T>
concept PlainValue =
    std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_array_v<T>;

// For `visit_fields(Is<Record> auto& record, auto&& field)`, which both reads and writes.
template <typename T, typename Record>
concept Is = std::same_as<std::remove_const_t<T>, Record>;

// For pairs "name", member: calls field(name, member) for each, in order.
void fields(auto&& field, const char* name, auto& member, auto&&... rest) {
  field(name, member);
  if constexpr (sizeof...(rest) > 0) fields(field, rest...);
}

template <typename T>
concept ListValue = requires(T& list) {
  list.data();
  list.resize(1);
};

template <typename T>
void append_bytes(std::string& bytes, const T& value) {
  if constexpr (PlainValue<T>) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  } else if constexpr (ListValue<T>) {
    append_bytes(bytes, std::uint64_t{value.size()});
    if constexpr (PlainValue<typename T::value_type>)
      bytes.append(reinterpret_cast<const char*>(value.data()),
                   value.size() * sizeof(typename T::value_type));
    else
      for (const auto& item : value) append_bytes(bytes, item);
  } else {
    visit_fields(value, [&](const char*, const auto& member) { append_bytes(bytes, member); });
  }
}

// Removes the first `count` times `size` bytes from `bytes`. Throws InternalError if there are
// fewer.
inline std::string_view front_of(std::string_view& bytes, std::uint64_t count, std::uint64_t size) {
  if (count > bytes.size() / size) throw InternalError("a value's bytes are truncated");
  const std::string_view taken = bytes.substr(0, count * size);
  bytes.remove_prefix(taken.size());
  return taken;
}

// Sets `value` from the beginning of `bytes` and removes that. Throws InternalError if something is
// missing. Memory is never more than the bytes justify.
template <typename T>
void take_bytes(std::string_view& bytes, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = front_of(bytes, 1, 1).front() != 0;
  } else if constexpr (PlainValue<T>) {
    std::memcpy(&value, front_of(bytes, 1, sizeof value).data(), sizeof value);
  } else if constexpr (ListValue<T>) {
    using Item = typename T::value_type;
    std::uint64_t count = 0;
    take_bytes(bytes, count);
    value.clear();
    if constexpr (PlainValue<Item>) {
      const std::string_view items = front_of(bytes, count, sizeof(Item));
      value.resize(count);
      if (count > 0) std::memcpy(value.data(), items.data(), items.size());
    } else {
      for (std::uint64_t i = 0; i < count; ++i) take_bytes(bytes, value.emplace_back());
    }
  } else {
    visit_fields(value, [&](const char*, auto& member) { take_bytes(bytes, member); });
  }
}

template <typename T>
T value_from(std::string_view& bytes) {
  T value{};
  take_bytes(bytes, value);
  return value;
}

template <typename T>
std::string to_bytes(const T& value) {
  std::string bytes;
  append_bytes(bytes, value);
  return bytes;
}

// Throws InternalError unless `bytes` are those of one value.
template <typename T>
T from_bytes(std::string_view bytes) {
  T value = value_from<T>(bytes);
  if (!bytes.empty()) throw InternalError("a value has more bytes than it should");
  return value;
}

}  // namespace kiln
