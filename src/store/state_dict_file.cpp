#include "store/state_dict_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <unordered_set>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {

std::optional<std::uint64_t> bytes_of_shape(const std::vector<std::int64_t>& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(byte_size(dtype));
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    is_empty |= size == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
}

namespace {

using Reader = StateDict (*)(std::string_view bytes, StateDictParts& parts);

Reader reader_of(std::string_view bytes) {
  constexpr std::size_t kSafetensorsBrace = 8;
  if (bytes.empty()) throw FormatFault("it is empty");
  if (bytes.starts_with("PK\x03\x04")) return read_torch_zip;
  if (begins_like_torch_legacy(bytes)) return read_torch_legacy;
  if (bytes.size() > kSafetensorsBrace && bytes[kSafetensorsBrace] == '{')
    return [](std::string_view whole, StateDictParts&) { return read_safetensors(whole); };
  if (bytes.starts_with("version https://git-lfs"))
    throw FormatFault("it is a Git LFS pointer, not the file itself; fetch it with 'git lfs pull'");
  throw FormatFault(
      "it begins neither like torch.save's zip, nor like its older format, nor like safetensors");
}

template <typename Bits>
bool all_below(std::string_view bytes, Bits exponent) {
  bool below = true;
  for (std::size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    below &= (bits & exponent) != exponent;
  }
  return below;
}

bool fits_float32(std::string_view bytes) {
  bool fits = true;
  for (std::size_t at = 0; at + sizeof(double) <= bytes.size(); at += sizeof(double)) {
    double value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    fits &= std::abs(value) <= double{std::numeric_limits<float>::max()};  // false for NaN
  }
  return fits;
}

bool is_finite(const StoredTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kFloat64:
      return fits_float32(tensor.bytes);
    case DType::kFloat32:
      return all_below<std::uint32_t>(tensor.bytes, 0x7f800000U);
    case DType::kFloat16:
      return all_below<std::uint16_t>(tensor.bytes, 0x7c00);
    case DType::kBFloat16:
      return all_below<std::uint16_t>(tensor.bytes, 0x7f80);
    default:
      return true;
  }
}

}  // namespace

std::string StateDictParts::fault() const {
  std::vector<std::string> others = names;
  if (wanted.empty()) std::erase(others, taken);  // it has several
  const std::string choice = "add #" + joined(others, " or #");
  if (wanted.empty()) return "it holds several networks; " + choice;
  return "it has no part '" + excerpt(wanted) + "'; " +
         (names.empty() ? "it is one state dict" : choice);
}

StateDict read_state_dict(std::string_view bytes, StateDictParts& parts) {
  return reader_of(bytes)(bytes, parts);
}

StateDict read_state_dict(std::string_view bytes) {
  StateDictParts parts;
  return read_state_dict(bytes, parts);
}

void require_finite(const StateDict& state) {
  for (const StoredTensor& tensor : state)
    if (!is_finite(tensor))
      throw FormatFault("its tensor " + quoted_beginning(tensor.name) +
                        " holds NaN, an infinity or a number beyond float32");
}

std::pair<std::string, std::string> file_and_part(const std::string& text) {
  const std::size_t hash = text.rfind('#');
  if (hash == std::string::npos || is_there(text)) return {text, ""};
  const std::string file = text.substr(0, hash);
  if (!is_url(file) && !is_file(file)) return {text, ""};
  return {file, text.substr(hash + 1)};
}

std::string read_state_dict_file(const std::filesystem::path& path) {
  constexpr std::size_t kEnough = 64;
  reader_of(first_bytes(path, kEnough));
  try {
    return read_file(path, kMaxStateDictBytes);
  } catch (const std::length_error& fault) {
    throw FormatFault(fault.what());
  }
}

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeader = 16 << 20;
constexpr std::size_t kHeaderAlignment = 8;

struct Entry {
  TensorView tensor;
  std::uint64_t begin = 0, end = 0;
};

std::uint64_t number_of(const Json& value, const std::string& name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX)
    throw FormatFault("its tensor " + quoted_beginning(name) +
                      " has a size that is not an integer");
  return value.get<std::uint64_t>();
}

DType dtype_of(const Json& value, const std::string& name) {
  for (const DTypeFacts& known : kDTypes)
    if (value.is_string() && value.get_ref<const std::string&>() == known.safetensors)
      return known.dtype;
  throw FormatFault("its tensor " + quoted_beginning(name) + " has the unknown dtype " +
                    value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40));
}

Entry read_entry(const std::string& name, const Json& value) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets") || !value["shape"].is_array() ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
    throw FormatFault("its tensor " + quoted_beginning(name) +
                      " does not have dtype, shape and data_offsets");
  Entry entry{{name, dtype_of(value["dtype"], name), {}, {}}};
  auto& [tensor, begin, end] = entry;
  for (const Json& dimension : value["shape"]) tensor.shape.push_back(number_of(dimension, name));
  begin = number_of(value["data_offsets"][0], name);
  end = number_of(value["data_offsets"][1], name);
  if (end < begin || end - begin != bytes_of_shape(tensor.shape, tensor.dtype))
    throw FormatFault("its tensor " + quoted_beginning(name) +
                      " has offsets that do not fit its shape");
  return entry;
}

// The entries in the order of their data, which must have no gaps or overlaps.
std::vector<Entry> read_entries(const Json& header, std::uint64_t data_size) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items())
    if (name != "__metadata__")
      entries.push_back(read_entry(name, value));
    else if (!value.is_object() || !std::all_of(value.begin(), value.end(),
                                                [](const Json& one) { return one.is_string(); }))
      throw FormatFault("its __metadata__ does not map strings to strings");
  std::ranges::stable_sort(entries, {},
                           [](const Entry& it) { return std::pair(it.begin, it.end); });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      throw FormatFault(
          "the data of its tensor " + quoted_beginning(entry.tensor.name) +
          (entry.begin < at ? " overlap another tensor's" : " leave a gap before them"));
    at = entry.end;
  }
  if (at != data_size)
    throw FormatFault("its tensors need " + std::to_string(at) + " bytes of data but it has " +
                      std::to_string(data_size) + "; the file is truncated or damaged");
  return entries;
}

}  // namespace

void rename_old_densenet_keys(StateDict& state) {
  constexpr std::size_t kMostBytes = 60;  // bounds the recursion of the matcher
  static const std::regex kOld(
      R"(denselayer\d+\.(norm|relu|conv)\.[12]\.(weight|bias|running_mean|running_var)$)");
  for (StoredTensor& tensor : state) {
    std::string& name = tensor.name;
    if (std::regex_search(name.substr(name.size() - std::min(name.size(), kMostBytes)), kOld))
      name.erase(name.rfind('.', name.rfind('.') - 1), 1);
  }
  std::unordered_set<std::string_view> names;
  for (const StoredTensor& tensor : state) {
    if (names.insert(tensor.name).second) continue;
    throw FormatFault("it contains '" + tensor.name + "' under both its old and its new name");
  }
}

// The safetensors format: an 8-byte header length, a JSON object that maps names to {dtype, shape,
// data_offsets}, then the data.

std::vector<TensorView> views_of_safetensors(std::string_view bytes) {
  const auto size = little_endian<std::uint64_t>(bytes, 0, "the header's length");
  if (size > kMaxHeader)
    throw FormatFault("it declares a header of " + std::to_string(size) +
                      " bytes, more than the limit of " + std::to_string(kMaxHeader));
  const std::string_view header = range_of(bytes, 8, size, "the header");
  if (!header.starts_with('{')) throw FormatFault("its header does not begin with '{'");
  const std::string_view data = bytes.substr(8 + size);
  std::vector<TensorView> tensors;
  try {
    for (auto& [tensor, begin, end] :
         read_entries(parse_json(header, RepeatedKeys::kRefused), data.size())) {
      tensor.bytes = data.substr(begin, end - begin);
      tensors.push_back(std::move(tensor));
    }
  } catch (const JsonFault& fault) {
    throw FormatFault(std::string("its header ") + fault.what());
  }
  return tensors;
}

StateDict read_safetensors(std::string_view bytes) {
  StateDict state;
  for (TensorView& tensor : views_of_safetensors(bytes))
    state.push_back(
        {std::move(tensor.name), tensor.dtype, std::move(tensor.shape), std::string(tensor.bytes)});
  return state;
}

std::string safetensors_header(const std::vector<TensorView>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t at = 0;
  for (const TensorView& tensor : tensors) {
    header += ',' + Json(tensor.name).dump() + R"(:{"dtype":")" +
              std::string(facts_of(tensor.dtype).safetensors) + R"(","shape":)" +
              Json(tensor.shape).dump() + R"(,"data_offsets":[)" + std::to_string(at) + ',' +
              std::to_string(at + tensor.bytes.size()) + "]}";
    at += tensor.bytes.size();
  }
  header += '}';
  header.append((kHeaderAlignment - header.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  return little_endian(header.size(), 8) + header;
}

std::string write_safetensors(const StateDict& state) {
  std::vector<TensorView> views;
  std::size_t size = 0;
  for (const StoredTensor& tensor : state) {
    views.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    size += tensor.bytes.size();
  }
  std::string out = safetensors_header(views);
  out.reserve(out.size() + size);
  for (const StoredTensor& tensor : state) out += tensor.bytes;
  return out;
}

}  // namespace kiln
