// Tensors as files hold them, and the files: torch.save's zip format, its older plain pickle
// format, and safetensors. Does not depend on LibTorch.
//
// The readers are strict and run no code: sizes are bounded by the file, offsets are checked, and
// objects of unknown Python classes beside the tensors are skipped. They take bytes, so that they
// can be fuzzed.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tfrecord.h"

namespace kiln {

enum class DType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool
};

struct DTypeFacts {
  DType dtype;
  std::size_t size;              // bytes
  std::string_view name;         // torch's
  std::string_view safetensors;  // its name there
  std::string_view storage;      // torch's class
};
// In the order of DType.
inline constexpr std::array kDTypes{
    DTypeFacts{DType::kFloat64, 8, "float64", "F64", "DoubleStorage"},
    DTypeFacts{DType::kFloat32, 4, "float32", "F32", "FloatStorage"},
    DTypeFacts{DType::kFloat16, 2, "float16", "F16", "HalfStorage"},
    DTypeFacts{DType::kBFloat16, 2, "bfloat16", "BF16", "BFloat16Storage"},
    DTypeFacts{DType::kInt64, 8, "int64", "I64", "LongStorage"},
    DTypeFacts{DType::kInt32, 4, "int32", "I32", "IntStorage"},
    DTypeFacts{DType::kInt16, 2, "int16", "I16", "ShortStorage"},
    DTypeFacts{DType::kInt8, 1, "int8", "I8", "CharStorage"},
    DTypeFacts{DType::kUInt8, 1, "uint8", "U8", "ByteStorage"},
    DTypeFacts{DType::kBool, 1, "bool", "BOOL", "BoolStorage"},
};

constexpr const DTypeFacts& facts_of(DType dtype) {
  return kDTypes.at(static_cast<std::size_t>(dtype));
}
constexpr std::size_t byte_size(DType dtype) {
  return facts_of(dtype).size;
}

// The size in bytes of a tensor; its dimensions must not be negative. Empty if the product of the
// dimensions, with 0 taken as 1, does not fit into 63 bits: strides and counts would overflow.
std::optional<std::uint64_t> bytes_of_shape(const std::vector<std::int64_t>& shape, DType dtype);

template <typename Bytes>
struct TensorOf {
  std::string name;  // "model.conv1.weight"
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  Bytes bytes;                      // row-major, little-endian, prod(shape) * byte_size(dtype) long
};
using StoredTensor = TensorOf<std::string>;
using TensorView = TensorOf<std::string_view>;  // of bytes that others keep

// In file order, with unique names.
using StateDict = std::vector<StoredTensor>;

// Why bytes are not a valid state dict. what() is a clause without the file name.
class FormatFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The parts of a file, of which one is read: state dicts beside each other, such as `state_dict`
// and `state_dict_ema`, and the networks in one state dict, such as `teacher` and `student`.
struct StateDictParts {
  std::string
      wanted;         // empty: the usual one. Reading takes off the state dict's name, if it has it
  std::string taken;  // empty: the file is one state dict without a name
  std::vector<std::string> names;  // of the parts there are

  // Why none is read: there are several, or not the one that is wanted.
  std::string fault() const;
};

StateDict read_torch_zip(std::string_view bytes, StateDictParts& parts);
StateDict read_torch_legacy(std::string_view bytes, StateDictParts& parts);
StateDict read_safetensors(std::string_view bytes);
// The same without copies: views of `bytes`.
std::vector<TensorView> views_of_safetensors(std::string_view bytes);

// Reads any of the three formats, detected from the bytes.
StateDict read_state_dict(std::string_view bytes, StateDictParts& parts);
StateDict read_state_dict(std::string_view bytes);

// Throws FormatFault naming the first tensor with a value that is not finite as float32.
void require_finite(const StateDict& state);

// "FILE#PART" -> FILE, PART, for a file that exists and for a URL. The part is empty if there is
// none, or if a file has the whole name.
std::pair<std::string, std::string> file_and_part(const std::string& text);

// Reads a file for read_state_dict(). Reads all of it only if it begins like a state dict and has
// at most kMaxStateDictBytes. Throws FormatFault otherwise, and std::system_error if the file
// cannot be read.
constexpr std::uint64_t kMaxStateDictBytes = std::uint64_t{4} << 30;
std::string read_state_dict_file(const std::filesystem::path& path);

// Writes a file that torch.load(weights_only=True) can read: an uncompressed zip with the inner
// folder `model/`, holding an OrderedDict of tensors. Equal state dicts give equal bytes.
std::string write_torch_zip(const StateDict& state);
std::string write_safetensors(const StateDict& state);

// The header of a safetensors file. The bytes of the tensors follow it in order, without gaps.
std::string safetensors_header(const std::vector<TensorView>& tensors);

// Renames 'denselayer1.norm.1.weight', as in torchvision's published DenseNet files, to
// 'denselayer1.norm1.weight'.
void rename_old_densenet_keys(StateDict& state);

// Detects torch.save's older format.
bool begins_like_torch_legacy(std::string_view bytes);

// Byte ranges and little-endian numbers of untrusted input. Out-of-range access throws FormatFault.

// Returns `bytes[offset, offset + size)`; `what` names the range in the fault's message.
inline std::string_view range_of(std::string_view bytes, std::uint64_t offset, std::uint64_t size,
                                 std::string_view what) {
  if (offset > bytes.size() || size > bytes.size() - offset) {
    throw FormatFault(std::string(what) + " is outside the file (" + std::to_string(size) +
                      " bytes at offset " + std::to_string(offset) + " of " +
                      std::to_string(bytes.size()) + "); the file is truncated or damaged");
  }
  return bytes.substr(offset, size);
}

template <std::unsigned_integral Integer>
Integer little_endian(std::string_view bytes, std::uint64_t offset, std::string_view what) {
  return static_cast<Integer>(from_little_endian(range_of(bytes, offset, sizeof(Integer), what)));
}

}  // namespace kiln
