// Writes Protocol Buffers messages in wire format, field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

// One message. Fields are written in the order of the calls.
class ProtoMessage {
 public:
  ProtoMessage& integer(int field, std::uint64_t value);
  ProtoMessage& real(int field, double value);       // double
  ProtoMessage& small_real(int field, float value);  // float
  ProtoMessage& text(int field, std::string_view bytes);
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace kiln
