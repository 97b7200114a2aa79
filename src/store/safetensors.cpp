// safetensors: an 8-byte header length, a JSON object of names -> {dtype, shape, data_offsets},
// then the data.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "store/byte_reader.h"
#include "store/state_dict_file.h"
#include "store/strict_json.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeader = 16 << 20;
constexpr int kMaxDepth = 4;
constexpr std::size_t kAlignment = 8;

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array kDTypeNames{
    DTypeName{"F64", DType::kFloat64}, DTypeName{"F32", DType::kFloat32},
    DTypeName{"F16", DType::kFloat16}, DTypeName{"BF16", DType::kBFloat16},
    DTypeName{"I64", DType::kInt64},   DTypeName{"I32", DType::kInt32},
    DTypeName{"I16", DType::kInt16},   DTypeName{"I8", DType::kInt8},
    DTypeName{"U8", DType::kUInt8},    DTypeName{"BOOL", DType::kBool},
};

struct Entry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

std::string shortened(const std::string& text) {
  return "'" + text.substr(0, 200) + "'";
}

std::uint64_t number_of(const Json& value, const std::string& name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX) {
    throw FormatFault("its tensor " + shortened(name) + " has a size that is not a whole number");
  }
  return value.get<std::uint64_t>();
}

DType dtype_of(const Json& value, const std::string& name) {
  if (value.is_string()) {
    for (const DTypeName& known : kDTypeNames) {
      if (known.name == value.get_ref<const std::string&>()) return known.dtype;
    }
  }
  throw FormatFault("its tensor " + shortened(name) + " has the unknown dtype " +
                    value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40));
}

Entry read_entry(const std::string& name, const Json& value) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets") || !value["shape"].is_array() ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2) {
    throw FormatFault("its tensor " + shortened(name) +
                      " does not have dtype, shape and data_offsets");
  }
  Entry entry{name, dtype_of(value["dtype"], name), {}, 0, 0};
  std::uint64_t size = byte_size(entry.dtype);
  bool overflow = false;
  for (const Json& dimension : value["shape"]) {
    const std::uint64_t extent = number_of(dimension, name);
    overflow |= __builtin_mul_overflow(size, extent, &size);
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }
  entry.begin = number_of(value["data_offsets"][0], name);
  entry.end = number_of(value["data_offsets"][1], name);
  if (overflow || entry.end < entry.begin || entry.end - entry.begin != size) {
    throw FormatFault("its tensor " + shortened(name) + " has offsets that do not fit its shape");
  }
  return entry;
}

void check_metadata(const Json& metadata) {
  const bool texts =
      metadata.is_object() && std::all_of(metadata.begin(), metadata.end(),
                                          [](const Json& value) { return value.is_string(); });
  if (!texts) throw FormatFault("its __metadata__ is not a list of texts");
}

// In the order of the data, which must be without holes and overlaps.
std::vector<Entry> read_entries(const Json& header, std::uint64_t data_size) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      check_metadata(value);
    } else {
      entries.push_back(read_entry(name, value));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& left, const Entry& right) {
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      throw FormatFault("the data of its tensor " + shortened(entry.name) +
                        (entry.begin < at ? " overlap another's" : " leave a hole before them"));
    }
    at = entry.end;
  }
  if (at != data_size) {
    throw FormatFault("its tensors need " + std::to_string(at) + " bytes of data but it has " +
                      std::to_string(data_size) + "; the file is cut off or damaged");
  }
  return entries;
}

std::string_view dtype_name(DType dtype) {
  for (const DTypeName& known : kDTypeNames) {
    if (known.dtype == dtype) return known.name;
  }
  throw InternalError("dtype_name: unknown dtype");
}

}  // namespace

StateDict read_safetensors(std::string_view bytes) {
  const auto size = little_endian<std::uint64_t>(bytes, 0, "the header's length");
  if (size > kMaxHeader) {
    throw FormatFault("it declares a header of " + std::to_string(size) +
                      " bytes, more than the limit of " + std::to_string(kMaxHeader));
  }
  const std::string_view header = range_of(bytes, 8, size, "the header");
  if (!header.starts_with('{')) throw FormatFault("its header does not begin with '{'");
  const std::string_view data = bytes.substr(8 + size);
  StateDict state;
  for (Entry& entry :
       read_entries(parse_strict_json(header, kMaxDepth, "its header"), data.size())) {
    state.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                     std::string(data.substr(entry.begin, entry.end - entry.begin))});
  }
  return state;
}

std::string write_safetensors(const StateDict& state) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t at = 0;
  for (const StoredTensor& tensor : state) {
    header += ',' + Json(tensor.name).dump() + R"(:{"dtype":")" +
              std::string(dtype_name(tensor.dtype)) + R"(","shape":)" + Json(tensor.shape).dump() +
              R"(,"data_offsets":[)" + std::to_string(at) + ',' +
              std::to_string(at + tensor.bytes.size()) + "]}";
    at += tensor.bytes.size();
  }
  header += '}';
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  std::string out;
  out.reserve(8 + header.size() + at);
  append_little_endian<std::uint64_t>(out, header.size());
  out += header;
  for (const StoredTensor& tensor : state) out += tensor.bytes;
  return out;
}

}  // namespace kiln
