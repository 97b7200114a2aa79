// TensorBoard events: Protocol Buffers messages in TFRecord framing.
//
// Field numbers are those of tensorflow/core/util/event.proto, framework/summary.proto,
// framework/tensor.proto and tensorboard/plugins/hparams/plugin_data.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

// One message, field by field.
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

// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

// length, masked CRC of it, bytes, masked CRC of these; little-endian.
std::string tfrecord(std::string_view bytes);

}  // namespace kiln
